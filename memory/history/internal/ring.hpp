#pragma once
// A ring buffer of the latest events, allocated once. Thread-safe: a lock orders the events, because a writer that
// begins a new round may meet an entry that is still being written.
//
//     memory::HistoryRing ring(1'000);
//     ring.add({.bytes = 4096});
//     std::vector<memory::MemoryEvent> events = ring.events();
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <headroom/memory/allocator/internal/spin_lock.hpp>
#include <headroom/memory/history.hpp>

namespace headroom::memory {

class HistoryRing {
  public:
    /// `capacity` > 0. Errors: std::bad_alloc.
    explicit HistoryRing(std::size_t capacity) : events_(capacity) {}

    static std::uint64_t now() noexcept {
        return static_cast<std::uint64_t>(
            std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    }
    /// Stores the event with the current time.
    void add(const MemoryEvent& event) noexcept {
        const std::lock_guard guard(lock_);
        MemoryEvent& place = events_[count_++ % events_.size()];
        place = event;
        place.time = now();
    }

    std::uint64_t dropped() const noexcept {
        const std::lock_guard guard(lock_);
        return first();
    }
    /// Oldest first. Errors: std::bad_alloc.
    std::vector<MemoryEvent> events() const {
        const std::lock_guard guard(lock_);
        std::vector<MemoryEvent> result;
        result.reserve(static_cast<std::size_t>(count_ - first()));
        for (std::uint64_t i = first(); i < count_; ++i) result.push_back(events_[i % events_.size()]);
        return result;
    }

  private:
    /// Number of the oldest stored event.
    std::uint64_t first() const noexcept { return count_ > events_.size() ? count_ - events_.size() : 0; }

    mutable SpinLock lock_;
    std::vector<MemoryEvent> events_;
    std::uint64_t count_ = 0;
};

}  // namespace headroom::memory
