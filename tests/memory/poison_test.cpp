// In builds with AddressSanitizer an access to a free block, or to the padding behind a live one, is reported.
#include <headroom/memory/allocator/internal/poison.hpp>

#include <gtest/gtest.h>

#include <headroom/memory/device_memory.hpp>

namespace headroom::memory {
namespace poison_test {

constexpr Tag kTag{};

#ifdef HEADROOM_POISONS
constexpr bool kPoisons = true;
bool is_poisoned(const void* address) { return __asan_address_is_poisoned(address) != 0; }
#else
constexpr bool kPoisons = false;
bool is_poisoned(const void*) { return false; }
#endif

class PoisonTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!kPoisons) GTEST_SKIP() << "needs AddressSanitizer: configure with the preset asan";
    }
    static void touch(const std::byte* address) { *const_cast<volatile std::byte*>(address) = std::byte{1}; }
    DeviceMemory memory_{make_host_driver()};
};

TEST_F(PoisonTest, ReportsUseAfterFree) {
    const Allocation block = memory_.allocate(1000, 0, kTag);
    touch(block.data);
    memory_.deallocate(block.handle);
    EXPECT_DEATH(touch(block.data), "use-after-poison");
}

TEST_F(PoisonTest, ReportsUseOfPadding) {
    const Allocation block = memory_.allocate(1000, 0, kTag);
    touch(block.data + 999);
    EXPECT_DEATH(touch(block.data + 1000), "use-after-poison");
    const Allocation none = memory_.allocate(0, 0, kTag);
    EXPECT_DEATH(touch(none.data), "use-after-poison");
}

TEST_F(PoisonTest, ReportsUseOfPagesThatNobodyHadYet) {
    const Allocation block = memory_.allocate(64, 0, kTag);
    EXPECT_DEATH(touch(block.data + 64), "use-after-poison");
}

TEST_F(PoisonTest, AllowsAReusedBlock) {
    memory_.deallocate(memory_.allocate(100, 0, kTag).handle);
    const Allocation block = memory_.allocate(200, 0, kTag);
    for (int i = 0; i < 200; ++i) touch(block.data + i);
}

TEST_F(PoisonTest, AllowsWhatAGraphDoesAgain) {
    const PoolId pool = memory_.open_pool();
    const Allocation block = memory_.allocate(100, 0, kTag, pool);
    memory_.deallocate(block.handle);
    touch(block.data + 99);
    memory_.close_pool(pool);
}

TEST_F(PoisonTest, LeavesAddressesCleanThatItGivesBack) {
    const std::byte* data = nullptr;
    {
        DeviceMemory memory(make_host_driver());
        data = memory.allocate(64, 0, kTag).data;
    }
    EXPECT_FALSE(is_poisoned(data));
}

}  // namespace poison_test
}  // namespace headroom::memory
