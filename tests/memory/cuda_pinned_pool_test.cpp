// The pool of page-locked memory where work takes its time: on the fake GPU, whose streams go on when the test says so.
#include <headroom/memory/pinned_pool.hpp>

#include <cuda.h>
#include <gtest/gtest.h>

#include <string>

#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/fake_cuda.hpp>

namespace headroom::memory::test {
namespace cuda_pinned_pool_test {

class PinnedPoolOnCuda : public FakeCudaTest {
  protected:
    void SetUp() override { fake_cuda::reset({.pinned_bytes = 64 << 10, .latency = fake_cuda::kHeld}); }
};

TEST_F(PinnedPoolOnCuda, ABlockWaitsForAllStreamsThatUsedIt) {
    PinnedPool pool(open_fake_cuda());
    PinnedBlock block = pool.allocate(4096);
    std::byte* const data = block.data();
    block.record_use(1);
    block.record_use(2);
    block.record_use(1);
    block.reset();
    EXPECT_EQ(fake_cuda::calls("cuEventRecord"), 2);
    EXPECT_EQ(pool.statistics().pending, 4096u);
    const PinnedBlock other = pool.allocate(4096);
    EXPECT_NE(other.data(), data);
    fake_cuda::let_pass(fake_cuda::stream(1));
    const PinnedBlock third = pool.allocate(4096);
    EXPECT_NE(third.data(), data);
    fake_cuda::let_pass(fake_cuda::stream(2));
    EXPECT_EQ(pool.allocate(4096).data(), data);
    EXPECT_EQ(fake_cuda::calls("cuEventSynchronize"), 0);
}

TEST_F(PinnedPoolOnCuda, WaitsOnlyWhenTheDriverHasNoMore) {
    PinnedPool pool(open_fake_cuda());
    PinnedBlock a = pool.allocate(32 << 10), b = pool.allocate(32 << 10);
    std::byte* const data = a.data();
    a.record_use(0);
    b.record_use(0);
    a.reset();
    b.reset();
    EXPECT_EQ(fake_cuda::calls("cuEventSynchronize"), 0);
    const PinnedBlock again = pool.allocate(20'000);
    EXPECT_EQ(again.data(), data);
    EXPECT_EQ(fake_cuda::calls("cuEventSynchronize"), 1);
    EXPECT_EQ(pool.statistics().pending, 32u << 10);
    EXPECT_EQ(fake_cuda::pending(fake_cuda::stream(0)), 1u);  // the second copy is still under way
}

TEST_F(PinnedPoolOnCuda, PendingBlocksOfOtherSizesMakeRoom) {
    PinnedPool pool(open_fake_cuda());
    for (const std::size_t bytes : {4096u, 8192u, 16384u, 32768u}) {
        PinnedBlock block = pool.allocate(bytes);
        block.record_use(3);
    }
    const PinnedBlock whole = pool.allocate(64 << 10);
    EXPECT_TRUE(whole);
    EXPECT_EQ(pool.statistics().held(), 64u << 10);
    EXPECT_EQ(fake_cuda::usage().pinned, 64u << 10);
}

TEST_F(PinnedPoolOnCuda, OutOfMemoryComesAfterAllWasTried) {
    PinnedPool pool(open_fake_cuda());
    const PinnedBlock live = pool.allocate(4096);
    {
        PinnedBlock pending = pool.allocate(8192);
        pending.record_use(3);
    }
    try {
        pool.allocate(64 << 10);
        FAIL() << "there is no room for it";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(
            std::string(error.what()),
            "out of memory: 65.5 kB (65.5 kB rounded up) of page-locked host memory for CUDA device 0 (Fake GPU) "
            "were refused by the driver, with 4096 B in use; use fewer or smaller staging buffers, free them earlier");
    }
    EXPECT_EQ(pool.statistics().held(), 4096u);
    EXPECT_TRUE(pool.allocate(32 << 10));
}

TEST_F(PinnedPoolOnCuda, ABlockWhoseEventCouldNotBeRecordedGetsOneLater) {
    PinnedPool pool(open_fake_cuda());
    PinnedBlock block = pool.allocate(4096);
    std::byte* const data = block.data();
    block.record_use(1);
    block.record_use(2);
    fake_cuda::fail("cuEventRecord", CUDA_ERROR_ILLEGAL_ADDRESS, 1);
    block.reset();
    fake_cuda::let_pass(fake_cuda::stream(1));
    fake_cuda::let_pass(fake_cuda::stream(2));
    EXPECT_NE(pool.allocate(4096).data(), data) << "the event was recorded for this request, and has not passed";
    EXPECT_EQ(fake_cuda::calls("cuEventRecord"), 3);
    EXPECT_EQ(pool.statistics().pending, 4096u);
    fake_cuda::let_pass(fake_cuda::stream(2));
    const PinnedBlock other = pool.allocate(4096);
    EXPECT_EQ(pool.allocate(4096).data(), data);
    EXPECT_EQ(pool.statistics().pending, 0u);
}

TEST_F(PinnedPoolOnCuda, ABlockUsedInACaptureServesOthersOnceTheCaptureHasEnded) {
    PinnedPool pool(open_fake_cuda());
    PinnedBlock block = pool.allocate(4096);
    std::byte* const data = block.data();
    CUstream_st* const stream = fake_cuda::stream(1);
    fake_cuda::begin_capture(stream);
    block.record_use(1);
    block.reset();
    EXPECT_NE(pool.allocate(4096).data(), data);
    EXPECT_EQ(pool.trim(), 4096u) << "the other one; nobody can wait for the graph's";
    const fake_cuda::Graph graph = fake_cuda::end_capture(stream);
    EXPECT_TRUE(graph.valid);
    EXPECT_EQ(graph.nodes, 0u);
    EXPECT_EQ(pool.trim(), 4096u);
    EXPECT_EQ(pool.statistics().held(), 0u);
}

TEST_F(PinnedPoolOnCuda, AFailingDeviceLeavesNothingBehind) {
    PinnedPool pool(open_fake_cuda());
    fake_cuda::fail("cuMemHostAlloc", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_THROW(pool.allocate(4096), DeviceError);
    {
        PinnedBlock a = pool.allocate(4096), b = pool.allocate(8192);
        a.record_use(1);
        b.record_use(1);
    }
    fake_cuda::fail("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_THROW(pool.allocate(4096), DeviceError);
    fake_cuda::fail("cuEventSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_THROW(pool.trim(), DeviceError);
    EXPECT_EQ(pool.statistics().pending, 12288u);
    fake_cuda::fail("cuEventSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS, 1);  // when the pool goes
}

TEST_F(PinnedPoolOnCuda, GivingBackNeitherWaitsNorUnlocks) {
    PinnedPool pool(open_fake_cuda());
    for (int round = 0; round < 3; ++round) {
        PinnedBlock block = pool.allocate(4096);
        block.record_use(0);
    }
    EXPECT_EQ(fake_cuda::calls("cuMemHostAlloc"), 3);
    EXPECT_EQ(fake_cuda::calls("cuMemFreeHost"), 0);
    EXPECT_EQ(fake_cuda::calls("cuEventSynchronize"), 0);
}

}  // namespace cuda_pinned_pool_test
}  // namespace headroom::memory::test
