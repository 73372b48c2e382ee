// A buffer is a counted reference; the last owner gives the memory back.
#include <headroom/memory/buffer.hpp>

#include <gtest/gtest.h>

#include <cstring>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory {
namespace buffer_test {

constexpr Tag kTag{};

class BufferTest : public ::testing::Test {
  protected:
    std::size_t live() const { return memory_.statistics().allocated; }
    DeviceMemory memory_{make_host_driver()};
};

TEST_F(BufferTest, IsEmptyByDefault) {
    Buffer buffer;
    EXPECT_FALSE(buffer);
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_EQ(buffer.bytes(), 0u);
    EXPECT_FALSE(buffer.unique());
    EXPECT_EQ(buffer.version(), 0u);
    EXPECT_EQ(buffer.memory(), nullptr);
    EXPECT_TRUE(buffer.same(Buffer()));
    buffer.reset();
}

TEST_F(BufferTest, GivesItsMemoryBackWithTheLastOwner) {
    Buffer first = Buffer::allocate(memory_, 1000, 2, kTag);
    EXPECT_EQ(first.bytes(), 1000u);
    EXPECT_EQ(first.memory(), &memory_);
    EXPECT_EQ(live(), 1024u);
    std::memset(first.data(), 1, 1000);
    Buffer second = first;
    EXPECT_TRUE(first.same(second));
    EXPECT_FALSE(first.unique());
    first.reset();
    EXPECT_TRUE(second.unique());
    EXPECT_EQ(live(), 1024u);
    second = Buffer();
    EXPECT_EQ(live(), 0u);
}

TEST_F(BufferTest, MovesWithoutCounting) {
    Buffer first = Buffer::allocate(memory_, 10, 0, kTag);
    std::byte* const data = first.data();
    Buffer second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_TRUE(second.unique());
    EXPECT_EQ(second.data(), data);
}

TEST_F(BufferTest, SurvivesAssignmentToItself) {
    Buffer buffer = Buffer::allocate(memory_, 10, 0, kTag);
    Buffer& alias = buffer;
    buffer = alias;
    EXPECT_TRUE(buffer.unique());
    EXPECT_EQ(live(), 64u);
}

TEST_F(BufferTest, ReleasesWhatAnAssignmentReplaces) {
    Buffer buffer = Buffer::allocate(memory_, 64, 0, kTag);
    buffer = Buffer::allocate(memory_, 128, 0, kTag);
    EXPECT_EQ(live(), 128u);
}

TEST_F(BufferTest, StartsAtVersionZeroEvenInAReusedBlock) {
    {
        Buffer buffer = Buffer::allocate(memory_, 64, 0, kTag);
        buffer.bump_version();
        const Buffer also = buffer;
        EXPECT_EQ(also.version(), 1u) << "owners share the version";
    }
    const Buffer again = Buffer::allocate(memory_, 64, 0, kTag);
    EXPECT_EQ(again.version(), 0u);
    EXPECT_TRUE(again.unique());
}

TEST_F(BufferTest, HasMemoryEvenForNoBytes) {
    const Buffer buffer = Buffer::allocate(memory_, 0, 0, kTag);
    EXPECT_TRUE(buffer);
    EXPECT_NE(buffer.data(), nullptr);
    EXPECT_EQ(buffer.bytes(), 0u);
}

TEST_F(BufferTest, CallsTheDeleterOfWrappedMemoryOnce) {
    int deleted = 0;
    int values[4] = {1, 2, 3, 4};
    {
        Buffer buffer = Buffer::wrap(values, sizeof values, [&] { ++deleted; });
        EXPECT_EQ(static_cast<void*>(buffer.data()), values);
        EXPECT_EQ(buffer.bytes(), sizeof values);
        EXPECT_EQ(buffer.memory(), nullptr);
        Buffer also = buffer;
        buffer.reset();
        EXPECT_EQ(deleted, 0);
    }
    EXPECT_EQ(deleted, 1);
    EXPECT_EQ(live(), 0u);
}

TEST_F(BufferTest, WrapsWithoutADeleter) {
    int value = 0;
    const Buffer buffer = Buffer::wrap(&value, sizeof value, {});
    EXPECT_TRUE(buffer.unique());
}

TEST_F(BufferTest, TellsItsMemoryWhoElseUsesIt) {
    test::DriverLog log;
    DeviceMemory memory(std::make_unique<test::CheckedDriver>(test::make_simulated_gpu(), log));
    Buffer::allocate(memory, 1000, 0, kTag).record_use(7);
    const Buffer again = Buffer::allocate(memory, 1000, 0, kTag);
    EXPECT_EQ(log.waits, (std::vector<test::DriverLog::Wait>{{0, 7, 1}}));
    int value = 0;
    Buffer::wrap(&value, sizeof value, {}).record_use(7);
    Buffer().record_use(7);
}

TEST_F(BufferTest, LeavesTheAllocatorAloneWhenRefused) {
    DeviceMemory small(make_host_driver(), {.limit = 1 << 21});
    EXPECT_THROW(Buffer::allocate(small, 1 << 22, 0, kTag), OutOfMemory);
    MemoryStatistics refused;
    refused.refusals = 1;
    EXPECT_EQ(small.statistics(), refused);
}

}  // namespace buffer_test
}  // namespace headroom::memory
