#pragma once
// The last so many events, in memory that is allocated once. Several threads may add at the same time; reading needs
// them to be stopped. Internal to memory/.
//
//     HistoryRing ring(1'000);
//     ring.add({.bytes = 4096});
//     std::vector<MemoryEvent> events = ring.events();
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/memory/history.hpp>

namespace headroom {

class HistoryRing {
  public:
    /// `capacity` > 0. Errors: std::bad_alloc.
    explicit HistoryRing(std::size_t capacity) : events_(capacity) {}

    static std::uint64_t now() noexcept {
        return static_cast<std::uint64_t>(
            std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    }
    /// Keeps the event; its time is set.
    void add(const MemoryEvent& event) noexcept {
        MemoryEvent& place = events_[count_.fetch_add(1, std::memory_order_relaxed) % events_.size()];
        place = event;
        place.time = now();
    }

    std::uint64_t dropped() const noexcept {
        const std::uint64_t count = count_.load(std::memory_order_relaxed);
        return count > events_.size() ? count - events_.size() : 0;
    }
    /// Oldest first. Errors: std::bad_alloc.
    std::vector<MemoryEvent> events() const {
        const std::uint64_t count = count_.load(std::memory_order_relaxed);
        std::vector<MemoryEvent> result;
        result.reserve(static_cast<std::size_t>(count - dropped()));
        for (std::uint64_t i = dropped(); i < count; ++i) result.push_back(events_[i % events_.size()]);
        return result;
    }

  private:
    std::vector<MemoryEvent> events_;
    std::atomic<std::uint64_t> count_{0};
};

}  // namespace headroom
