// Several threads share one allocator, each with streams of its own, and hand blocks to each other. ThreadSanitizer
// runs this, too. HEADROOM_FUZZ_OPERATIONS sets how many calls all threads make together.
#include <headroom/memory/device_memory.hpp>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include <headroom/memory/memory_scope.hpp>
#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/memory/happens_before.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace device_memory_threads_test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kOperations = 8'000;
#else
constexpr std::size_t kOperations = 40'000;
#endif
constexpr StreamId kThreads = 4;

std::size_t operations() {
    const char* const value = std::getenv("HEADROOM_FUZZ_OPERATIONS");
    return value ? std::strtoull(value, nullptr, 10) : kOperations;
}

struct Owned {
    Allocation allocation;
    std::size_t bytes = 0;
    StreamId stream = 0;
    std::byte pattern{};
};

/// What the threads have in common.
struct Shared {
    DeviceMemory& memory;
    HappensBefore* order;  ///< null if nothing is checked, so that nothing but the allocator orders the threads
    std::size_t granule;
    bool touchable;
    std::mutex mutex;
    Owned published;  ///< may be used and given back by all; null at first
};

class Worker {
  public:
    Worker(Shared& shared, StreamId index, std::uint64_t seed)
        : shared_(shared), streams_{index, index + kThreads}, random_(seed * kThreads + index) {
        path_ = shared_.memory.intern("thread." + std::to_string(index));
    }
    void run(std::size_t operations) {
        for (std::size_t i = 0; i < operations; ++i) {
            const unsigned dice = static_cast<unsigned>(random_() % 1000);
            if (dice < 480) {
                allocate();
            } else if (dice < 900) {
                give_some_back();
            } else if (dice < 940) {
                publish();
            } else if (dice < 980) {
                use_published();
            } else if (dice < 985) {
                measure();
            } else if (dice < 987) {
                shared_.memory.trim();
            } else if (dice < 988) {
                shared_.memory.reset_peak();
            } else if (dice < 989) {
                shared_.memory.begin_step();
            } else if (dice < 990) {
                use_pool();
            } else {
                look();
            }
        }
        while (!blocks_.empty()) give_some_back();
    }

  private:
    Owned make(std::size_t bytes, PoolId pool = 0) {
        Owned owned;
        owned.bytes = bytes;
        owned.stream = streams_[random_() % 2];
        owned.pattern = static_cast<std::byte>(random_());
        const Tag tag{static_cast<CategoryId>(random_() % kCategoryCount), path_};
        owned.allocation = shared_.memory.allocate(bytes, owned.stream, tag, pool);
        if (shared_.order) shared_.order->hand_out(owned.allocation.data, owned.allocation.bytes, owned.stream);
        for_each_probe(owned, [&](std::byte& byte) { byte = owned.pattern; });
        return owned;
    }
    void give_back(const Owned& owned) {
        for_each_probe(owned, [&](std::byte& byte) { EXPECT_EQ(byte, owned.pattern); });
        shared_.memory.deallocate(owned.allocation.handle);
    }
    void allocate() {
        // The same few sizes again and again, and others.
        const std::size_t bytes = random_() % 2 ? 1000 * (random_() % 5) : random_() % shared_.granule;
        try {
            blocks_.push_back(make(bytes));
        } catch (const OutOfMemory&) {
            give_some_back();
        }
    }
    void give_some_back() {
        if (blocks_.empty()) return;
        std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
        if (shared_.order) shared_.order->use(blocks_.back().allocation.data, blocks_.back().stream);
        give_back(blocks_.back());
        blocks_.pop_back();
    }
    void publish() {
        if (blocks_.empty()) return;
        const std::lock_guard guard(shared_.mutex);
        if (shared_.published.allocation.handle) give_back(shared_.published);  // perhaps another thread's
        shared_.published = blocks_.back();
        blocks_.pop_back();
    }
    void use_published() {
        const std::lock_guard guard(shared_.mutex);
        const Owned& published = shared_.published;
        if (!published.allocation.handle) return;
        if (shared_.order) {
            shared_.order->join(streams_[0], published.stream);
            shared_.order->use(published.allocation.data, streams_[0]);
        }
        shared_.memory.record_use(published.allocation.handle, streams_[0]);
    }
    void measure() {
        const MemoryScope scope(shared_.memory);
        try {
            const Owned owned = make(shared_.granule / 2);
            EXPECT_GE(scope.peak() + shared_.granule * 100, owned.allocation.bytes);
            give_back(owned);
        } catch (const OutOfMemory&) {
        }
    }
    void use_pool() {
        const PoolId pool = shared_.memory.open_pool();
        try {
            give_back(make(5000, pool));
            blocks_.push_back(make(5000, pool));
        } catch (const OutOfMemory&) {
        }
        shared_.memory.close_pool(pool);
    }
    void look() {
        const MemoryStatistics statistics = shared_.memory.statistics();
        EXPECT_LE(statistics.allocated, statistics.peak_allocated);
        EXPECT_LE(statistics.allocated, statistics.reserved);
        EXPECT_EQ(sum(statistics.allocated_by_category), statistics.allocated);
        EXPECT_EQ(sum(statistics.at_peak_by_category), statistics.peak_allocated);
        const MemorySnapshot snapshot = shared_.memory.snapshot();
        std::size_t live = 0;
        for (const BlockInfo& block : snapshot.blocks) live += block.live ? block.bytes : 0;
        EXPECT_EQ(live, snapshot.statistics.allocated);
    }
    static std::size_t sum(const std::array<std::size_t, kCategoryCount>& figures) {
        return std::accumulate(figures.begin(), figures.end(), std::size_t{0});
    }
    template <class Visit>
    void for_each_probe(const Owned& owned, Visit&& visit) {
        if (!shared_.touchable) return;
        for (std::size_t i = 0; i < owned.bytes; i += 4099) visit(owned.allocation.data[i]);
        if (owned.bytes > 0) visit(owned.allocation.data[owned.bytes - 1]);
    }

    Shared& shared_;
    const StreamId streams_[2];
    std::mt19937_64 random_;
    PathId path_ = 0;
    std::vector<Owned> blocks_;
};

class DeviceMemoryThreads : public DriverTest {
  protected:
    void play(std::unique_ptr<Driver> driver, MemoryOptions options, HappensBefore* order) {
        const std::uint64_t seed = headroom::test::random_seed();
        DeviceMemory memory(std::move(driver), options);
        Shared shared{memory, order, granule(), properties().touchable, {}, {}};
        std::vector<std::thread> threads;
        for (StreamId index = 0; index < kThreads; ++index) {
            threads.emplace_back([&, index] { Worker(shared, index, seed).run(operations() / kThreads); });
        }
        for (std::thread& thread : threads) thread.join();
        if (shared.published.allocation.handle) memory.deallocate(shared.published.allocation.handle);
        const MemoryStatistics statistics = memory.statistics();
        EXPECT_EQ(statistics.allocated, 0u);
        EXPECT_EQ(statistics.requested, 0u);
        EXPECT_TRUE(memory.largest_paths().empty());
        memory.trim();
        EXPECT_EQ(memory.statistics().reserved, 0u);
        if (order) {
            EXPECT_EQ(order->violations(), "");
        }
    }
    MemoryOptions limited() const { return {.limit = 40 * granule()}; }
};

TEST_P(DeviceMemoryThreads, ShareOneAllocator) { play(GetParam().make(), limited(), nullptr); }

TEST_P(DeviceMemoryThreads, ShareOneAllocatorWithHistory) {
    MemoryOptions options = limited();
    options.history = 1'000;  // it begins anew again and again
    play(GetParam().make(), options, nullptr);
}

TEST_P(DeviceMemoryThreads, KeepTheOrderOfStreams) {
    if (!asynchronous()) GTEST_SKIP() << "work is done when its call returns";
    HappensBefore order;
    play(std::make_unique<OrderedDriver>(driver(), order), limited(), &order);
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryThreads, all_drivers(), driver_name);

}  // namespace device_memory_threads_test
}  // namespace headroom::memory::test
