// Every allocation that the allocator makes on the C++ heap fails once: nothing leaks, live figures are as before, and
// the same call succeeds when it is made again. Giving back needs no heap.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/memory_scope.hpp>
#include <headroom/tests/support/seed.hpp>

namespace {
std::int64_t fail_in = -1;  // allocations that still succeed before one fails; this test program has one thread
}

// Not inlined: GCC would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    if (fail_in >= 0 && fail_in-- == 0) throw std::bad_alloc();
    if (void* const address = std::malloc(bytes ? bytes : 1)) return address;
    throw std::bad_alloc();
}
// What std::stable_sort asks for; it does without.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* address) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace headroom::memory {
namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;
constexpr std::size_t kTotal = 24 * kGranule;

/// Makes random calls, each again and again, with a later allocation failing each time, until none is left to fail.
class Program {
  public:
    Program(Driver* driver, std::uint64_t seed)
        : driver_(*driver), memory_(std::unique_ptr<Driver>(driver)), random_(seed) {}

    void run(int calls) {
        for (int i = 0; i < calls && !::testing::Test::HasFailure(); ++i) {
            act(random_() % 100);
            EXPECT_EQ(memory_.statistics().reserved, kTotal - driver_.free_bytes());
        }
        while (!blocks_.empty()) give_back();
        for (const PoolId pool : pools_) memory_.close_pool(pool);
        memory_.trim();
        EXPECT_EQ(memory_.statistics().allocated, 0u);
        EXPECT_EQ(memory_.statistics().reserved, 0u);
        EXPECT_EQ(driver_.free_bytes(), kTotal);
    }
    int failures() const { return failures_; }

  private:
    template <class Call>
    void attempt(Call&& call) {
        for (std::int64_t position = 0;; ++position) {
            const MemoryStatistics before = memory_.statistics();
            fail_in = position;
            try {
                call();
                fail_in = -1;
                return;
            } catch (const std::bad_alloc&) {
                fail_in = -1;
                ++failures_;
            }
            const MemoryStatistics after = memory_.statistics();
            EXPECT_EQ(after.allocated, before.allocated);
            EXPECT_EQ(after.requested, before.requested);
            EXPECT_EQ(after.allocations, before.allocations);
            EXPECT_EQ(after.peak_allocated, before.peak_allocated);
            EXPECT_EQ(after.allocated_by_category, before.allocated_by_category);
            if (::testing::Test::HasFailure()) return;
        }
    }
    void act(std::uint64_t dice) {
        if (dice < 50) return allocate();
        if (dice < 75 && !blocks_.empty()) return give_back();
        if (dice < 80) return attempt([&] { memory_.trim(); });
        if (dice < 84) return attempt([&] { memory_.start_history(random_() % 100); });
        if (dice < 88) return attempt([&] { memory_.snapshot(); });
        if (dice < 92) return attempt([&] { const MemoryScope scope(memory_); });
        if (dice < 96 && pools_.size() < 3) {
            PoolId pool = 0;
            attempt([&] { pool = memory_.open_pool(); });
            pools_.push_back(pool);
            return;
        }
        if (!blocks_.empty()) {
            const auto stream = static_cast<StreamId>(random_() % 6);
            attempt([&] { memory_.record_use(blocks_.back(), stream); });
        }
    }
    void allocate() {
        PathId path = 0;
        const std::string name = "blocks." + std::to_string(random_() % 50);
        attempt([&] { path = memory_.intern(name); });
        const PoolId pool = pools_.empty() || random_() % 4 ? 0 : pools_[random_() % pools_.size()];
        const auto stream = static_cast<StreamId>(random_() % 6);
        const std::size_t bytes = random_() % (random_() % 3 ? 100'000 : 4 * kGranule);
        Block* block = nullptr;
        attempt([&] {
            try {
                block = memory_.allocate(bytes, stream, {.path = path}, pool).handle;
            } catch (const OutOfMemory&) {
            }
        });
        if (block) blocks_.push_back(block);
    }
    void give_back() {
        std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
        fail_in = 0;
        EXPECT_NO_THROW(memory_.deallocate(blocks_.back()));
        fail_in = -1;
        blocks_.pop_back();
    }

    Driver& driver_;
    DeviceMemory memory_;
    std::mt19937_64 random_;
    std::vector<Block*> blocks_;
    std::vector<PoolId> pools_;
    int failures_ = 0;
};

TEST(HeapFailure, LeavesLiveFiguresAsTheyWereAtEveryPosition) {
    const std::uint64_t first = test::random_seed();
    for (std::uint64_t seed = first; seed < first + 8 && !HasFailure(); ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        SimulatedOptions options;
        options.properties = {.name = "simulated GPU",
                              .granularity = kGranule,
                              .alignment = 512,
                              .total_bytes = kTotal,
                              .address_bytes = std::size_t{1} << 40,
                              .touchable = false};
        options.event_latency = 20;
        Program program(make_simulated_driver(options).release(), seed);
        program.run(500);
        EXPECT_GT(program.failures(), 100);
    }
}

}  // namespace
}  // namespace headroom::memory
