#pragma once
// A driver that counts what is asked of the one behind it, and notes who waits for whom.
//
//     DriverLog log;
//     DeviceMemory memory(std::make_unique<CountingDriver>(memory::make_simulated_host_driver(), log));
//     fmt::print("{} pages created\n", log.calls.create);
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include <headroom/bench/traces/stream_times.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::traces {

/// Of pages: how many were created, destroyed, mapped, unmapped. Of events and ranges: calls.
struct DriverCalls {
    std::uint64_t create = 0;
    std::uint64_t destroy = 0;
    std::uint64_t map = 0;
    std::uint64_t unmap = 0;
    std::uint64_t reserve = 0;
    std::uint64_t record = 0;
    std::uint64_t passed = 0;
    std::uint64_t wait = 0;
    std::uint64_t synchronize = 0;
    std::uint64_t pinned = 0;

    bool operator==(const DriverCalls&) const = default;
};

/// What `after` counts beyond `before`.
inline DriverCalls operator-(const DriverCalls& after, const DriverCalls& before) {
    return {after.create - before.create, after.destroy - before.destroy, after.map - before.map,
            after.unmap - before.unmap,   after.reserve - before.reserve, after.record - before.record,
            after.passed - before.passed, after.wait - before.wait,       after.synchronize - before.synchronize,
            after.pinned - before.pinned};
}

struct DriverLog {
    DriverCalls calls;
    StreamTimes times;
};

/// Not for several threads.
class CountingDriver final : public memory::Driver {
  public:
    /// `log` outlives the driver.
    CountingDriver(std::unique_ptr<memory::Driver> driver, DriverLog& log)
        : driver_(std::move(driver)), calls_(log.calls), times_(log.times) {}

    const memory::DriverProperties& properties() const override { return driver_->properties(); }
    std::size_t free_bytes() const override { return driver_->free_bytes(); }

    std::byte* reserve(std::size_t bytes) override {
        ++calls_.reserve;
        return driver_->reserve(bytes);
    }
    void release(std::byte* address, std::size_t bytes) noexcept override { driver_->release(address, bytes); }
    memory::PageHandle create() override {
        ++calls_.create;
        return driver_->create();
    }
    void destroy(memory::PageHandle page) noexcept override {
        ++calls_.destroy;
        driver_->destroy(page);
    }
    void map(std::byte* address, std::span<const memory::PageHandle> pages) override {
        calls_.map += pages.size();
        driver_->map(address, pages);
    }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        calls_.unmap += count;
        driver_->unmap(address, count);
    }
    std::byte* allocate_pinned(std::size_t bytes) override {
        ++calls_.pinned;
        return driver_->allocate_pinned(bytes);
    }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override { driver_->free_pinned(address, bytes); }
    memory::EventHandle record(memory::StreamId stream) override {
        ++calls_.record;
        const memory::EventHandle event = driver_->record(stream);
        events_[event] = times_.now(stream);
        return event;
    }
    bool passed(memory::EventHandle event) override {
        ++calls_.passed;
        return driver_->passed(event);
    }
    void wait(memory::StreamId stream, memory::EventHandle event) override {
        ++calls_.wait;
        times_.wait(stream, events_.at(event));
        driver_->wait(stream, event);
    }
    void synchronize(memory::EventHandle event) override {
        ++calls_.synchronize;
        times_.wait_on_host(events_.at(event));
        driver_->synchronize(event);
    }
    void destroy_event(memory::EventHandle event) noexcept override {
        events_.erase(event);
        driver_->destroy_event(event);
    }

  private:
    std::unique_ptr<memory::Driver> driver_;
    DriverCalls& calls_;
    StreamTimes& times_;
    std::unordered_map<memory::EventHandle, double> events_;  ///< when they will have passed
};

}  // namespace headroom::traces
