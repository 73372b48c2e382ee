#pragma once
// A driver that forwards to another one, reports every misuse as a test failure, notes what was asked, and fails on
// demand. Its log outlives it, so that what was given back at the end can be looked at.
//
//     DriverLog log;
//     DeviceMemory memory(std::make_unique<CheckedDriver>(memory::make_host_driver(), log));
//     log.fail(DriverCall::map, 2);     // the third call from now on throws
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::memory::test {

/// The calls that may fail; `any` stands for all of them.
enum class DriverCall { reserve, create, map, pinned, record, wait, synchronize, any };

struct DriverLog {
    /// A stream waits for the event of another one that was recorded there as the so manieth, from 1.
    struct Wait {
        StreamId stream;
        StreamId other;
        std::uint64_t event;
        bool operator==(const Wait&) const = default;
    };
    struct Event {
        StreamId stream;
        std::uint64_t number;
    };

    std::map<std::byte*, std::size_t> ranges;  ///< reserved addresses
    std::map<std::byte*, PageHandle> mapped;   ///< by granule
    std::multimap<PageHandle, bool> pages;     ///< that exist; whether they are mapped. The host's are all alike.
    std::size_t addresses = SIZE_MAX;          ///< bytes that may be reserved at one time
    std::size_t created = 0;                   ///< bytes of pages that exist
    std::size_t peak_created = 0;
    std::uint64_t page_calls = 0;               ///< create, map, unmap, destroy
    std::map<EventHandle, Event> events;        ///< that exist
    std::map<StreamId, std::uint64_t> records;  ///< by stream
    std::vector<Wait> waits;
    int synchronizes = 0;  ///< calls that made the host wait

    /// The call after `after` more of this kind fails, once or, if `for_ever`, from then on.
    void fail(DriverCall call, std::int64_t after, bool for_ever = false) {
        countdown_[static_cast<std::size_t>(call)] = after;
        for_ever_ = for_ever;
    }
    /// No call fails any more; false if one was still to come.
    bool stop_failing() {
        const bool none = std::all_of(countdown_.begin(), countdown_.end(), [](auto left) { return left < 0; });
        countdown_.fill(-1);
        return none;
    }
    bool due(DriverCall call) {
        const bool of_any = due(countdown_.back());
        return due(countdown_[static_cast<std::size_t>(call)]) || of_any;
    }

  private:
    bool due(std::int64_t& left) const {
        if (left < 0) return false;
        if (left > 0) return --left, false;
        if (!for_ever_) left = -1;
        return true;
    }
    std::array<std::int64_t, 8> countdown_{-1, -1, -1, -1, -1, -1, -1, -1};
    bool for_ever_ = false;
};

class CheckedDriver final : public Driver {
  public:
    CheckedDriver(std::unique_ptr<Driver> inner, DriverLog& log)
        : inner_(std::move(inner)), granule_(inner_->properties().granularity), log_(log) {}
    ~CheckedDriver() override {
        EXPECT_TRUE(log_.ranges.empty()) << "addresses were not released";
        EXPECT_TRUE(log_.mapped.empty()) << "pages are still mapped";
        EXPECT_EQ(log_.created, 0u) << "pages were not destroyed";
        EXPECT_TRUE(log_.events.empty()) << "events were not destroyed";
    }

    const DriverProperties& properties() const override { return inner_->properties(); }
    std::size_t free_bytes() const override { return inner_->free_bytes(); }

    std::byte* reserve(std::size_t bytes) override {
        fail_if_due(DriverCall::reserve, "reserve");
        std::size_t left = log_.addresses;
        for (const auto& range : log_.ranges) left -= range.second;
        if (bytes > left) throw DeviceError("checked driver: there are no more addresses");
        std::byte* address = inner_->reserve(bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % granule_, 0u);
        log_.ranges[address] = bytes;
        return address;
    }
    void release(std::byte* address, std::size_t bytes) noexcept override {
        EXPECT_EQ(log_.ranges.erase(address), 1u);
        const auto inside = log_.mapped.lower_bound(address);
        EXPECT_TRUE(inside == log_.mapped.end() || inside->first >= address + bytes) << "released while mapped";
        inner_->release(address, bytes);
    }

    PageHandle create() override {
        ++log_.page_calls;
        if (log_.due(DriverCall::create)) return 0;
        const PageHandle page = inner_->create();
        if (!page) return 0;
        log_.pages.emplace(page, false);
        log_.created += granule_;
        log_.peak_created = std::max(log_.peak_created, log_.created);
        return page;
    }
    void destroy(PageHandle page) noexcept override {
        ++log_.page_calls;
        if (!change(page, false, nullptr)) ADD_FAILURE() << "page " << page << " does not exist or is mapped";
        log_.created -= granule_;
        inner_->destroy(page);
    }
    void map(std::byte* address, std::span<const PageHandle> pages) override {
        ++log_.page_calls;
        fail_if_due(DriverCall::map, "map");
        EXPECT_TRUE(reserved(address, pages.size() * granule_)) << "not reserved";
        EXPECT_FALSE(pages.empty());
        inner_->map(address, pages);
        const bool mapped = true;
        for (std::size_t i = 0; i < pages.size(); ++i) {
            if (!change(pages[i], false, &mapped)) ADD_FAILURE() << "page " << pages[i] << " is gone or mapped";
            EXPECT_TRUE(log_.mapped.emplace(address + i * granule_, pages[i]).second) << "mapped twice";
        }
    }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        ++log_.page_calls;
        EXPECT_GT(count, 0u);
        const bool mapped = false;
        for (std::size_t i = 0; i < count; ++i) {
            const auto found = log_.mapped.find(address + i * granule_);
            if (found == log_.mapped.end()) {
                ADD_FAILURE() << "nothing is mapped there";
                continue;
            }
            change(found->second, true, &mapped);
            log_.mapped.erase(found);
        }
        inner_->unmap(address, count);
    }

    std::byte* allocate_pinned(std::size_t bytes) override {
        return log_.due(DriverCall::pinned) ? nullptr : inner_->allocate_pinned(bytes);
    }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override { inner_->free_pinned(address, bytes); }

    // Several threads may call these.
    EventHandle record(StreamId stream) override {
        const std::lock_guard guard(mutex_);
        fail_if_due(DriverCall::record, "record");
        const EventHandle event = inner_->record(stream);
        if (!event) return 0;
        EXPECT_TRUE(log_.events.emplace(event, DriverLog::Event{stream, ++log_.records[stream]}).second);
        return event;
    }
    bool passed(EventHandle event) override {
        const std::lock_guard guard(mutex_);
        EXPECT_EQ(log_.events.count(event), 1u) << "no such event";
        return inner_->passed(event);
    }
    void wait(StreamId stream, EventHandle event) override {
        const std::lock_guard guard(mutex_);
        fail_if_due(DriverCall::wait, "wait");
        inner_->wait(stream, event);
        const DriverLog::Event recorded = log_.events.at(event);
        if (log_.waits.size() < kMostWaits) log_.waits.push_back({stream, recorded.stream, recorded.number});
    }
    void synchronize(EventHandle event) override {
        const std::lock_guard guard(mutex_);
        fail_if_due(DriverCall::synchronize, "synchronize");
        EXPECT_EQ(log_.events.count(event), 1u) << "no such event";
        inner_->synchronize(event);
        ++log_.synchronizes;
    }
    void destroy_event(EventHandle event) noexcept override {
        const std::lock_guard guard(mutex_);
        EXPECT_EQ(log_.events.erase(event), 1u) << "no such event";
        inner_->destroy_event(event);
    }
    bool capturing(StreamId stream) override { return inner_->capturing(stream); }
    StreamId adopt(void* stream) override { return inner_->adopt(stream); }

  private:
    static constexpr std::size_t kMostWaits = 100'000;

    void fail_if_due(DriverCall call, const char* name) {
        if (log_.due(call)) throw DeviceError(std::string(name) + ": injected failure");
    }
    /// Finds a page that is (not) mapped, and says so from now on, or forgets it; false if there is none.
    bool change(PageHandle page, bool is_mapped, const bool* becomes) {
        auto [found, end] = log_.pages.equal_range(page);
        while (found != end && found->second != is_mapped) ++found;
        if (found == end) return false;
        if (becomes) {
            found->second = *becomes;
        } else {
            log_.pages.erase(found);
        }
        return true;
    }
    bool reserved(std::byte* address, std::size_t bytes) const {
        auto range = log_.ranges.upper_bound(address);
        if (range == log_.ranges.begin()) return false;
        --range;
        return address + bytes <= range->first + range->second;
    }

    std::unique_ptr<Driver> inner_;
    const std::size_t granule_;
    DriverLog& log_;
    std::mutex mutex_;
};

}  // namespace headroom::memory::test
