#pragma once
// A driver that forwards to another one, reports every misuse as a test failure, notes what was asked, and fails on
// demand. Its log outlives it, so that what was given back at the end can be looked at.
//
//     DriverLog log;
//     DeviceMemory memory(std::make_unique<CheckedDriver>(make_host_driver(), log));
//     log.fail_map_in = 2;     // the third call from now on throws
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::testing {

struct DriverLog {
    std::map<std::byte*, std::size_t> ranges;  ///< reserved addresses
    std::map<std::byte*, std::size_t> mapped;
    std::size_t created = 0;  ///< bytes of pages that exist
    std::size_t peak_created = 0;
    std::uint64_t page_calls = 0;  ///< create, map, unmap, destroy
    std::int64_t events = 0;       ///< that exist
    std::map<EventHandle, StreamId> recorded_on;
    std::vector<std::pair<StreamId, StreamId>> waits;  ///< who waited, for whom

    std::int64_t fail_create_in = -1;  ///< calls that still succeed before one fails; -1: none fails
    std::int64_t fail_map_in = -1;
    std::int64_t fail_record_in = -1;
    std::int64_t fail_wait_in = -1;
    bool fail_for_ever = false;  ///< not once only
};

class CheckedDriver final : public Driver {
  public:
    CheckedDriver(std::unique_ptr<Driver> inner, DriverLog& log) : inner_(std::move(inner)), log_(log) {}
    ~CheckedDriver() override {
        EXPECT_TRUE(log_.ranges.empty()) << "addresses were not released";
        EXPECT_TRUE(log_.mapped.empty()) << "pages are still mapped";
        EXPECT_EQ(log_.created, 0u) << "pages were not destroyed";
        EXPECT_EQ(log_.events, 0) << "events were not destroyed";
    }

    const DriverProperties& properties() const override { return inner_->properties(); }
    std::size_t free_bytes() const override { return inner_->free_bytes(); }

    std::byte* reserve(std::size_t bytes) override {
        std::byte* address = inner_->reserve(bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % properties().granularity, 0u);
        log_.ranges[address] = bytes;
        return address;
    }
    void release(std::byte* address, std::size_t bytes) noexcept override {
        EXPECT_EQ(log_.ranges.erase(address), 1u);
        const auto inside = log_.mapped.lower_bound(address);
        EXPECT_TRUE(inside == log_.mapped.end() || inside->first >= address + bytes) << "released while mapped";
        inner_->release(address, bytes);
    }

    PageHandle create(std::size_t bytes) override {
        ++log_.page_calls;
        EXPECT_EQ(bytes % properties().granularity, 0u);
        if (due(log_.fail_create_in)) return 0;
        const PageHandle page = inner_->create(bytes);
        if (!page) return 0;
        sizes_.emplace(page, bytes);
        log_.created += bytes;
        log_.peak_created = std::max(log_.peak_created, log_.created);
        return page;
    }
    void destroy(PageHandle page) noexcept override {
        ++log_.page_calls;
        const auto found = sizes_.find(page);
        if (found == sizes_.end()) {
            ADD_FAILURE() << "page " << page << " does not exist";
            return;
        }
        log_.created -= found->second;
        sizes_.erase(found);
        inner_->destroy(page);
    }
    void map(std::byte* address, PageHandle page, std::size_t bytes) override {
        ++log_.page_calls;
        if (due(log_.fail_map_in)) throw DeviceError("map: injected failure");
        EXPECT_TRUE(reserved(address, bytes)) << "not reserved";
        const auto next = log_.mapped.lower_bound(address);
        EXPECT_TRUE(next == log_.mapped.end() || next->first >= address + bytes) << "mapped twice";
        EXPECT_TRUE(next == log_.mapped.begin() || std::prev(next)->first + std::prev(next)->second <= address);
        inner_->map(address, page, bytes);
        log_.mapped[address] = bytes;
    }
    void unmap(std::byte* address, std::size_t bytes) noexcept override {
        ++log_.page_calls;
        const auto found = log_.mapped.find(address);
        EXPECT_TRUE(found != log_.mapped.end() && found->second == bytes) << "not mapped like this";
        log_.mapped.erase(address);
        inner_->unmap(address, bytes);
    }

    std::byte* allocate_pinned(std::size_t bytes) override { return inner_->allocate_pinned(bytes); }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override { inner_->free_pinned(address, bytes); }

    EventHandle record(StreamId stream) override {
        if (due(log_.fail_record_in)) throw DeviceError("record: injected failure");
        const EventHandle event = inner_->record(stream);
        log_.recorded_on[event] = stream;
        ++log_.events;
        return event;
    }
    bool passed(EventHandle event) override { return inner_->passed(event); }
    void wait(StreamId stream, EventHandle event) override {
        if (due(log_.fail_wait_in)) throw DeviceError("wait: injected failure");
        inner_->wait(stream, event);
        log_.waits.emplace_back(stream, log_.recorded_on.at(event));
    }
    void synchronize(EventHandle event) override { inner_->synchronize(event); }
    void destroy_event(EventHandle event) noexcept override {
        inner_->destroy_event(event);
        --log_.events;
    }

  private:
    bool due(std::int64_t& countdown) const {
        if (countdown < 0) return false;
        if (countdown == 0) {
            if (!log_.fail_for_ever) countdown = -1;
            return true;
        }
        --countdown;
        return false;
    }
    bool reserved(std::byte* address, std::size_t bytes) const {
        auto range = log_.ranges.upper_bound(address);
        if (range == log_.ranges.begin()) return false;
        --range;
        return address + bytes <= range->first + range->second;
    }

    std::unique_ptr<Driver> inner_;
    DriverLog& log_;
    std::multimap<PageHandle, std::size_t> sizes_;  ///< the host's handles are not unique
};

}  // namespace headroom::testing
