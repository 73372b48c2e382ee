// Streams of other libraries, which the CUDA driver takes at any time, and processes that were forked.
#include <headroom/memory/device_memory.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/fake_cuda.hpp>

namespace headroom::memory::test {
namespace cuda_streams_test {

constexpr Tag kTag{};

class CudaStreamsTest : public FakeCudaTest {
  protected:
    void SetUp() override { fake_cuda::reset({.latency = fake_cuda::kHeld}); }
};

TEST_F(CudaStreamsTest, AreAdoptedAfterConstruction) {
    DeviceMemory memory(open_fake_cuda(0, 2));
    CUstream_st* const foreign = fake_cuda::stream(7);
    const StreamId stream = memory.adopt_stream(foreign);
    EXPECT_EQ(stream, 2u);
    EXPECT_EQ(memory.adopt_stream(foreign), stream);
    EXPECT_EQ(memory.adopt_stream(fake_cuda::stream(1)), 1u) << "it was given to the constructor";
    const Allocation block = memory.allocate(3 * kPage, 0, kTag);
    memory.record_use(block.handle, stream);
    memory.deallocate(block.handle);
    const std::size_t pending = fake_cuda::pending(foreign);
    EXPECT_GE(pending, 1u) << "the event of its use";
    EXPECT_EQ(memory.allocate(3 * kPage, stream, kTag).data, block.data);
    EXPECT_GT(fake_cuda::pending(foreign), pending) << "it waits for the stream that gave the block back";
    fake_cuda::let_pass(fake_cuda::stream(0));
    fake_cuda::let_pass(foreign);
}

TEST_F(CudaStreamsTest, AreSixtyFourAtMost) {
    DeviceMemory memory(open_fake_cuda(0, 63));
    EXPECT_EQ(memory.adopt_stream(fake_cuda::stream(63)), 63u);
    EXPECT_THROW(memory.adopt_stream(fake_cuda::stream(64)), DeviceError);
    EXPECT_THROW(open_fake_cuda(0, 65), DeviceError);
    DeviceMemory host(make_host_driver());
    EXPECT_THROW(host.adopt_stream(fake_cuda::stream(1)), DeviceError) << "the host has none";
}

TEST_F(CudaStreamsTest, AForkedProcessIsToldThatItMayNotUseThem) {
    auto memory = std::make_unique<DeviceMemory>(open_fake_cuda());
    const Allocation block = memory->allocate(kPage, 0, kTag);
    memory->deallocate(memory->allocate(4096, 0, kTag).handle);
    const pid_t child = fork();
    if (child == 0) {
        int failures = 0;
        std::string told;
        try {
            memory->allocate(64 * kPage, 0, kTag);
        } catch (const DeviceError& error) {
            told = error.what();
        }
        failures += told.find("CUDA does not work in a forked process") == std::string::npos;
        memory->deallocate(block.handle);
        memory.reset();  // calls nothing
        failures += fake_cuda::calls("cuMemUnmap") + fake_cuda::calls("cuMemRelease") != 0;
        failures += fake_cuda::calls("cuDevicePrimaryCtxRelease") != 0;
        _exit(failures);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    memory->deallocate(block.handle);
    EXPECT_NO_THROW(memory->deallocate(memory->allocate(64 * kPage, 0, kTag).handle)) << "the parent goes on";
}

}  // namespace cuda_streams_test
}  // namespace headroom::memory::test
