// A program under `ulimit -v`: what there is of addresses is the device's memory.
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::memory {
namespace address_limit_test {

constexpr std::size_t kLimit = std::size_t{1} << 30;
constexpr Tag kTag{};

/// In a process of its own: limits its addresses, does the work and ends with 0.
template <class Work>
void limited(std::size_t bytes, Work work) {
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) std::exit(1);
    work();
    std::exit(0);
}

/// Takes and fills some memory, and leaves some to others.
void use(MemoryOptions options) {
    DeviceMemory memory(make_host_driver(), std::move(options));
    constexpr std::size_t bytes = std::size_t{64} << 20;
    const Allocation block = memory.allocate(bytes, 0, kTag);
    std::memset(block.data, 1, bytes);
    const std::vector<char> others(bytes, 1);
    memory.deallocate(block.handle);
}

class AddressLimit : public ::testing::Test {
  protected:
    void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "a sanitizer takes terabytes of addresses";
#endif
    }
};

TEST_F(AddressLimit, IsTheMemoryThatThereIs) {
    const auto total = [] { return make_host_driver()->properties().total_bytes; };
    const std::size_t without = total();
    EXPECT_EXIT(limited(kLimit, [&] { std::exit(total() == kLimit / 2 ? 0 : 2); }), ::testing::ExitedWithCode(0), "");
    constexpr std::size_t large = std::size_t{6} << 30, itself = std::size_t{2} << 30;
    EXPECT_EXIT(limited(large, [&] { std::exit(total() == std::min(without, large - itself) ? 0 : 2); }),
                ::testing::ExitedWithCode(0), "");
}

TEST_F(AddressLimit, LetsAProgramTakeMemoryWithAndWithoutALimitOfItsOwn) {
    EXPECT_EXIT(limited(kLimit, [] { use({}); }), ::testing::ExitedWithCode(0), "");
    EXPECT_EXIT(limited(kLimit, [] { use({.limit = std::size_t{80} << 20}); }), ::testing::ExitedWithCode(0), "");
}

// Such as a large file that is mapped.
TEST_F(AddressLimit, LeavesAddressesThatOthersHaveTaken) {
    const auto take = [] {
        if (mmap(nullptr, kLimit / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
            std::exit(3);
    };
    EXPECT_EXIT(limited(kLimit, [&] { take(), use({}); }), ::testing::ExitedWithCode(0), "");
    EXPECT_EXIT(limited(kLimit, [&] { take(), use({.limit = std::size_t{80} << 20}); }), ::testing::ExitedWithCode(0),
                "");
}

}  // namespace address_limit_test
}  // namespace headroom::memory
