// Random sequences of calls: no two live blocks overlap, contents stay, figures are exact, and the simulated host
// decides as the host does.
#include <headroom/memory/device_memory.hpp>

#include <cstring>
#include <map>
#include <random>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::testing {
namespace {

/// ThreadSanitizer makes each step some thirty times slower, and other tests are its business.
#ifdef __SANITIZE_THREAD__
constexpr int kSteps = 3'000;
#else
constexpr int kSteps = 30'000;
#endif

struct Live {
    Allocation allocation;
    std::size_t requested;
    Tag tag;
    unsigned char pattern;
};

/// Small and large sizes alike: uniform in their logarithm.
std::size_t random_size(std::mt19937& random, std::size_t largest) {
    const double exponent = std::uniform_real_distribution<>(0, std::log2(static_cast<double>(largest)))(random);
    return static_cast<std::size_t>(std::exp2(exponent)) - 1;
}

Tag random_tag(std::mt19937& random, PathId paths) {
    return {static_cast<Category>(random() % kCategoryCount), static_cast<PathId>(random() % paths)};
}

/// What the allocator should say, kept by the simplest means.
class Model {
  public:
    void add(const Live& live) {
        const auto next = by_address_.lower_bound(live.allocation.data);
        EXPECT_TRUE(next == by_address_.end() || live.allocation.data + live.allocation.bytes <= next->first);
        EXPECT_TRUE(next == by_address_.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= live.allocation.data);
        by_address_[live.allocation.data] = live.allocation.bytes;
        change(live, 1);
    }
    void remove(const Live& live) {
        by_address_.erase(live.allocation.data);
        change(live, -1);
    }
    void check(const MemoryStatistics& statistics) const {
        ASSERT_EQ(statistics.allocated, static_cast<std::size_t>(allocated_));
        ASSERT_EQ(statistics.requested, static_cast<std::size_t>(requested_));
        ASSERT_GE(statistics.reserved, statistics.allocated);
        for (std::size_t i = 0; i < kCategoryCount; ++i) {
            ASSERT_EQ(statistics.allocated_by_category[i], static_cast<std::size_t>(by_category_[i]));
        }
    }

  private:
    void change(const Live& live, std::int64_t sign) {
        allocated_ += sign * static_cast<std::int64_t>(live.allocation.bytes);
        requested_ += sign * static_cast<std::int64_t>(live.requested);
        by_category_[static_cast<std::size_t>(live.tag.category)] +=
            sign * static_cast<std::int64_t>(live.allocation.bytes);
    }
    std::map<std::byte*, std::size_t> by_address_;
    std::int64_t allocated_ = 0;
    std::int64_t requested_ = 0;
    std::array<std::int64_t, kCategoryCount> by_category_{};
};

class DeviceMemoryFuzz : public DriverTest {
  protected:
    void fill(const Live& live) {
        if (properties().touchable) std::memset(live.allocation.data, live.pattern, live.requested);
    }
    void expect_untouched(const Live& live) {
        if (!properties().touchable || live.requested == 0) return;
        const auto* bytes = reinterpret_cast<const unsigned char*>(live.allocation.data);
        // All bytes equal the first, and the first is right.
        ASSERT_EQ(bytes[0], live.pattern);
        ASSERT_EQ(std::memcmp(bytes, bytes + 1, live.requested - 1), 0);
    }
};

TEST_P(DeviceMemoryFuzz, KeepsBlocksApartAndFiguresExact) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    DeviceMemory memory(driver(), {.limit = 10 * granule()});
    Model model;
    std::vector<Live> blocks;
    int refused = 0;
    for (int step = 0; step < kSteps; ++step) {
        if (blocks.empty() || random() % 100 < 52) {
            Live live{
                {}, random_size(random, 4 * granule()), random_tag(random, 1), static_cast<unsigned char>(random())};
            try {
                live.allocation = memory.allocate(live.requested, random() % 4, live.tag, random() % 8 == 0 ? 1 : 0);
            } catch (const OutOfMemory&) {
                ++refused;
                continue;
            }
            model.add(live);
            fill(live);
            blocks.push_back(live);
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            expect_untouched(blocks.back());
            model.remove(blocks.back());
            memory.deallocate(blocks.back().allocation.handle);
            blocks.pop_back();
        }
        if (random() % 500 == 0) memory.trim();
        model.check(memory.statistics());
        ASSERT_EQ(memory.statistics().reserved, log().created);
        ASSERT_EQ(memory.statistics().driver_calls, log().page_calls);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(refused, 0) << "the limit was not reached";
    for (const Live& live : blocks) memory.deallocate(live.allocation.handle);
    EXPECT_EQ(memory.statistics().allocated, 0u);
    memory.trim();
    EXPECT_EQ(memory.statistics().reserved, 0u) << "free blocks were not merged";
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryFuzz, all_drivers(), driver_name);

/// One memory under random calls; two of them with the same seed are asked the same.
class Player {
  public:
    Player(std::unique_ptr<Driver> driver, unsigned seed)
        : random_(seed), memory_(std::move(driver), {.limit = 70'000'000}) {
        for (int i = 1; i < 20; ++i) memory_.intern("module." + std::to_string(i));
    }
    MemoryStatistics step() {
        const unsigned dice = random_() % 1000;
        if (dice == 0) memory_.trim();
        if (dice == 1) memory_.reset_peak();
        if (blocks_.empty() || dice % 100 < 51) {
            const std::size_t bytes = random_size(random_, 8'000'000);
            const Tag tag = random_tag(random_, 20);
            const StreamId stream = random_() % 3;
            const PoolId pool = random_() % 10 == 0 ? 1 : 0;
            try {
                blocks_.push_back(memory_.allocate(bytes, stream, tag, pool).handle);
            } catch (const OutOfMemory& error) {
                largest_free_ = error.report().largest_free_block;
            }
        } else {
            std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
            memory_.deallocate(blocks_.back());
            blocks_.pop_back();
        }
        return memory_.statistics();
    }
    std::size_t largest_free() const { return largest_free_; }
    const DeviceMemory& memory() const { return memory_; }

  private:
    std::mt19937 random_;
    DeviceMemory memory_;
    std::vector<Block*> blocks_;
    std::size_t largest_free_ = 0;
};

TEST(SimulatedHost, DecidesAsTheHostDoes) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Player host(make_host_driver(), seed);
    Player simulated(make_simulated_host_driver(), seed);
    for (int step = 0; step < kSteps; ++step) {
        const MemoryStatistics expected = host.step();
        ASSERT_EQ(simulated.step(), expected) << "step " << step;
        ASSERT_EQ(simulated.largest_free(), host.largest_free()) << "step " << step;
    }
    EXPECT_EQ(simulated.memory().largest_paths(20), host.memory().largest_paths(20));
}

}  // namespace
}  // namespace headroom::testing
