#pragma once
// Whether memory is handed out, or taken away, before work that uses it is done: vector clocks of streams and of the
// host, as the driver's calls order them, and the last uses of every byte. Method: L. Lamport, "Time, clocks, and the
// ordering of events in a distributed system", CACM 1978; C. Fidge, "Timestamps in message-passing systems that
// preserve the partial ordering", 1988.
//
//     HappensBefore order;
//     DeviceMemory memory(std::make_unique<OrderedDriver>(std::move(driver), order));
//     order.hand_out(block.data, block.bytes, stream);     // then order.use(...) for each piece of work
//     EXPECT_EQ(order.violations(), "");
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/memory/driver.hpp>

namespace headroom::memory::test {

/// Calls may come from several threads.
class HappensBefore {
  public:
    /// A block is handed out: all that used its bytes must have happened before the stream's next work, which uses it.
    void hand_out(const std::byte* data, std::size_t bytes, StreamId stream) {
        const std::lock_guard guard(mutex_);
        const auto begin = reinterpret_cast<std::uintptr_t>(data);
        Clock& now = queue(stream);
        const auto [first, last] = cut(begin, begin + bytes);
        for (auto piece = first; piece != last; ++piece) {
            for (const Use& use : piece->second.uses) {
                if (now[use.stream] >= use.time) continue;
                fail("[{:x}, {:x}) was handed to stream {} while work {} of stream {} may still use it", begin,
                     begin + bytes, stream, use.time, use.stream);
            }
        }
        ranges_.erase(first, last);
        ranges_.emplace(begin, Range{begin + bytes, {{stream, now[stream]}}});
    }
    /// Work that uses a live block is queued.
    void use(const std::byte* data, StreamId stream) {
        const std::lock_guard guard(mutex_);
        Clock& now = queue(stream);
        std::vector<Use>& uses = ranges_.at(reinterpret_cast<std::uintptr_t>(data)).uses;
        const auto mine = std::find_if(uses.begin(), uses.end(), [&](const Use& use) { return use.stream == stream; });
        if (mine == uses.end()) {
            uses.push_back({stream, now[stream]});
        } else {
            mine->time = now[stream];
        }
    }
    /// The user lets `stream` wait for what `other` has queued.
    void join(StreamId stream, StreamId other) {
        const std::lock_guard guard(mutex_);
        raise(streams_[stream], streams_[other]);
    }

    void record(EventHandle event, StreamId stream) {
        const std::lock_guard guard(mutex_);
        raise(streams_[stream], host_);
        events_[event] = streams_[stream];
    }
    void wait(StreamId stream, EventHandle event) {
        const std::lock_guard guard(mutex_);
        raise(streams_[stream], events_.at(event));
    }
    void host_knows(EventHandle event) {
        const std::lock_guard guard(mutex_);
        raise(host_, events_.at(event));
    }
    void forget(EventHandle event) {
        const std::lock_guard guard(mutex_);
        events_.erase(event);
    }
    /// Pages are taken away: the host must know that all work on them is done.
    void unmap(const std::byte* data, std::size_t bytes) {
        const std::lock_guard guard(mutex_);
        const auto begin = reinterpret_cast<std::uintptr_t>(data);
        const auto [first, last] = cut(begin, begin + bytes);
        for (auto piece = first; piece != last; ++piece) {
            for (const Use& use : piece->second.uses) {
                if (host_[use.stream] >= use.time) continue;
                fail("pages [{:x}, {:x}) were unmapped while work {} of stream {} may still use them", begin,
                     begin + bytes, use.time, use.stream);
            }
        }
        ranges_.erase(first, last);
    }

    /// One line for each of the first few; empty if there are none.
    std::string violations() const {
        const std::lock_guard guard(mutex_);
        return violations_;
    }

  private:
    static constexpr std::size_t kStreams = 64;
    using Clock = std::array<std::uint32_t, kStreams>;
    struct Use {
        StreamId stream;
        std::uint32_t time;  ///< of its stream: the so manieth work queued there
    };
    struct Range {
        std::uintptr_t end;
        std::vector<Use> uses;
    };
    using Ranges = std::map<std::uintptr_t, Range>;

    static void raise(Clock& clock, const Clock& other) {
        for (std::size_t i = 0; i < kStreams; ++i) clock[i] = std::max(clock[i], other[i]);
    }
    Clock& queue(StreamId stream) {
        Clock& clock = streams_[stream];
        raise(clock, host_);
        ++clock[stream];
        return clock;
    }
    /// The ranges inside of [begin, end), once those that reach over its ends are in two pieces.
    std::pair<Ranges::iterator, Ranges::iterator> cut(std::uintptr_t begin, std::uintptr_t end) {
        for (const std::uintptr_t at : {begin, end}) {
            auto range = ranges_.lower_bound(at);
            if (range == ranges_.begin()) continue;
            --range;
            if (range->second.end <= at) continue;
            Range rest = range->second;
            range->second.end = at;
            ranges_.emplace(at, std::move(rest));
        }
        return {ranges_.lower_bound(begin), ranges_.lower_bound(end)};
    }
    template <class... Arguments>
    void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
        if (violations_.size() > 1000) return;
        violations_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
    }

    mutable std::mutex mutex_;
    std::array<Clock, kStreams> streams_{};
    Clock host_{};
    std::unordered_map<EventHandle, Clock> events_;
    Ranges ranges_;  ///< bytes that were handed out since they were mapped
    std::string violations_;
};

/// Tells a `HappensBefore` what the driver is asked.
class OrderedDriver final : public Driver {
  public:
    OrderedDriver(std::unique_ptr<Driver> inner, HappensBefore& order) : inner_(std::move(inner)), order_(order) {}

    const DriverProperties& properties() const override { return inner_->properties(); }
    std::size_t free_bytes() const override { return inner_->free_bytes(); }
    std::byte* reserve(std::size_t bytes) override { return inner_->reserve(bytes); }
    void release(std::byte* address, std::size_t bytes) noexcept override { inner_->release(address, bytes); }
    PageHandle create() override { return inner_->create(); }
    void destroy(PageHandle page) noexcept override { inner_->destroy(page); }
    void map(std::byte* address, std::span<const PageHandle> pages) override { inner_->map(address, pages); }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        if (!properties().synchronous) order_.unmap(address, count * properties().granularity);
        inner_->unmap(address, count);
    }
    std::byte* allocate_pinned(std::size_t bytes) override { return inner_->allocate_pinned(bytes); }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override { inner_->free_pinned(address, bytes); }

    EventHandle record(StreamId stream) override {
        const EventHandle event = inner_->record(stream);
        order_.record(event, stream);
        return event;
    }
    bool passed(EventHandle event) override {
        const bool passed = inner_->passed(event);
        if (passed) order_.host_knows(event);
        return passed;
    }
    void wait(StreamId stream, EventHandle event) override {
        inner_->wait(stream, event);
        order_.wait(stream, event);
    }
    void synchronize(EventHandle event) override {
        inner_->synchronize(event);
        order_.host_knows(event);
    }
    void destroy_event(EventHandle event) noexcept override {
        order_.forget(event);
        inner_->destroy_event(event);
    }

  private:
    std::unique_ptr<Driver> inner_;
    HappensBefore& order_;
};

}  // namespace headroom::memory::test
