// The CUDA driver over a strict fake of libcuda: what it asks of CUDA, and in which order.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include <headroom/memory/cuda_driver.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/fake_cuda.hpp>

namespace headroom::memory::test {
namespace cuda_driver_test {

class CudaDriverTest : public FakeCudaTest {};

TEST_F(CudaDriverTest, HasThePropertiesOfTheDevice) {
    fake_cuda::reset({.devices = 2, .total_bytes = 141'000'000'000});
    const auto driver = open_fake_cuda(1);
    const DriverProperties& p = driver->properties();
    EXPECT_EQ(p.name, "CUDA device 1 (Fake GPU)");
    EXPECT_EQ(p.granularity, kPage);
    EXPECT_EQ(p.alignment, 512u);
    EXPECT_EQ(p.total_bytes, 141'000'000'000u);
    EXPECT_GE(p.address_bytes, 8 * p.total_bytes);
    EXPECT_LT(p.address_bytes, 8 * p.total_bytes + kPage);
    EXPECT_EQ(p.address_bytes % kPage, 0u);
    EXPECT_FALSE(p.touchable);
    EXPECT_FALSE(p.synchronous);
}

TEST_F(CudaDriverTest, ContentsFollowThePageNotTheAddress) {
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(8 * kPage);
    const auto pages = create_pages(*driver, 3);
    driver->map(address, pages);
    for (int i = 0; i < 3; ++i) std::memset(address + i * kPage, i + 1, kPage);
    driver->unmap(address, 3);
    driver->map(address + 4 * kPage, std::vector{pages[2], pages[0]});
    EXPECT_EQ(address[4 * kPage], std::byte{3});
    EXPECT_EQ(address[6 * kPage - 1], std::byte{1});
    driver->unmap(address + 4 * kPage, 2);
    destroy_pages(*driver, pages);
    driver->release(address, 8 * kPage);
}

TEST_F(CudaDriverTest, AllowsAccessOncePerMap) {
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(16 * kPage);
    const auto pages = create_pages(*driver, 16);
    driver->map(address, pages);
    EXPECT_EQ(fake_cuda::calls("cuMemSetAccess"), 1);
    driver->map(address, {});
    EXPECT_EQ(fake_cuda::calls("cuMemSetAccess"), 1);
    driver->unmap(address, 16);
    destroy_pages(*driver, pages);
    driver->release(address, 16 * kPage);
}

TEST_F(CudaDriverTest, NothingIsMappedWhenMapThrows) {
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(4 * kPage);
    const auto pages = create_pages(*driver, 4);
    for (int position = 0; position <= 4; ++position) {
        if (position < 4) {
            fake_cuda::fail("cuMemMap", CUDA_ERROR_OUT_OF_MEMORY, position);
        } else {
            fake_cuda::fail("cuMemSetAccess", CUDA_ERROR_OUT_OF_MEMORY);
        }
        EXPECT_THROW(driver->map(address, pages), DeviceError);
        EXPECT_EQ(fake_cuda::usage().mapped, 0u);
    }
    driver->map(address, pages);
    EXPECT_EQ(fake_cuda::usage().mapped, 4u);
    driver->unmap(address, 4);
    destroy_pages(*driver, pages);
    driver->release(address, 4 * kPage);
}

TEST_F(CudaDriverTest, ReservesWholePages) {
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(kPage + 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % kPage, 0u);
    EXPECT_EQ(fake_cuda::usage().reserved, 2 * kPage);
    driver->release(address, kPage + 1);
}

TEST_F(CudaDriverTest, CreateGivesNoneWhenTheDeviceIsFull) {
    fake_cuda::reset({.total_bytes = 3 * kPage + 4096});
    const auto driver = open_fake_cuda();
    EXPECT_EQ(driver->free_bytes(), 3 * kPage + 4096);
    const auto pages = create_pages(*driver, 4);
    EXPECT_NE(pages[2], 0u);
    EXPECT_EQ(pages[3], 0u);
    EXPECT_EQ(driver->free_bytes(), 4096u);
    driver->destroy(pages[1]);
    const PageHandle again = driver->create();
    EXPECT_NE(again, 0u);
    destroy_pages(*driver, {pages[0], pages[2], again});
}

/// That the library of these tests sees it: CUDA leaves undefined what happens then.
TEST_F(CudaDriverTest, APageIsNotUnmappedWhileWorkUsesIt) {
    fake_cuda::reset({.latency = fake_cuda::kHeld});
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(2 * kPage);
    const auto pages = create_pages(*driver, 2);
    driver->map(address, pages);
    fake_cuda::queue_work(fake_cuda::stream(3), address + kPage - 8, 8);
    driver->unmap(address + kPage, 1);
    EXPECT_EQ(fake_cuda::take_misuses(), std::vector<std::string>{});
    driver->unmap(address, 1);
    EXPECT_EQ(fake_cuda::take_misuses(), std::vector<std::string>{"cuMemUnmap: work that uses the page is not done"});
    fake_cuda::let_pass(fake_cuda::stream(3));
    driver->unmap(address, 1);
    destroy_pages(*driver, pages);
    driver->release(address, 2 * kPage);
}

TEST_F(CudaDriverTest, PinnedMemoryIsNullWhenThereIsNone) {
    fake_cuda::reset({.pinned_bytes = 10'000});
    const auto driver = open_fake_cuda();
    std::byte* const block = driver->allocate_pinned(8'000);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, 8'000);
    EXPECT_EQ(driver->allocate_pinned(4'000), nullptr);
    std::byte* const empty = driver->allocate_pinned(0);
    EXPECT_NE(empty, nullptr);
    driver->free_pinned(empty, 0);
    driver->free_pinned(block, 8'000);
}

TEST_F(CudaDriverTest, EventsPassInTheOrderOfTheirStream) {
    fake_cuda::reset({.latency = fake_cuda::kHeld});
    const auto driver = open_fake_cuda();
    fake_cuda::queue_work(fake_cuda::stream(3));
    const EventHandle first = driver->record(3);
    const EventHandle second = driver->record(3);
    EXPECT_FALSE(driver->passed(first));
    fake_cuda::let_pass(fake_cuda::stream(3), 2);
    EXPECT_TRUE(driver->passed(first));
    EXPECT_FALSE(driver->passed(second));
    driver->synchronize(second);
    EXPECT_TRUE(driver->passed(second));
    driver->destroy_event(first);
    driver->destroy_event(second);
}

TEST_F(CudaDriverTest, AStreamWaitsForWhatWasRecordedEvenIfTheEventIsUsedAgain) {
    fake_cuda::reset({.latency = fake_cuda::kHeld});
    const auto driver = open_fake_cuda();
    const EventHandle event = driver->record(0);
    driver->wait(1, event);
    driver->destroy_event(event);
    const EventHandle again = driver->record(2);
    EXPECT_EQ(again, event);
    fake_cuda::let_pass(fake_cuda::stream(1));
    EXPECT_EQ(fake_cuda::pending(fake_cuda::stream(1)), 1u);
    fake_cuda::let_pass(fake_cuda::stream(2));
    EXPECT_EQ(fake_cuda::pending(fake_cuda::stream(1)), 1u);
    fake_cuda::let_pass(fake_cuda::stream(0));
    EXPECT_EQ(fake_cuda::pending(fake_cuda::stream(1)), 0u);
    driver->destroy_event(again);
}

TEST_F(CudaDriverTest, EventsAreUsedAgain) {
    const auto driver = open_fake_cuda();
    for (int round = 0; round < 100; ++round) {
        const EventHandle a = driver->record(0);
        const EventHandle b = driver->record(1);
        driver->destroy_event(a);
        driver->destroy_event(b);
    }
    EXPECT_EQ(fake_cuda::calls("cuEventCreate"), 2);
    EXPECT_EQ(fake_cuda::calls("cuEventDestroy"), 0);
}

TEST_F(CudaDriverTest, AnEventThatCouldNotBeRecordedIsUsedAgain) {
    const auto driver = open_fake_cuda();
    for (int round = 0; round < 3; ++round) {
        fake_cuda::fail("cuEventRecord", CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_THROW(driver->record(0), DeviceError);
    }
    EXPECT_EQ(fake_cuda::usage().events, 1u);
}

TEST_F(CudaDriverTest, EventsOfSeveralThreads) {
    fake_cuda::reset({.latency = 50});
    const auto driver = open_fake_cuda();
    std::vector<std::thread> threads;
    for (StreamId stream = 0; stream < 4; ++stream) {
        threads.emplace_back([&driver, stream] {
            for (int round = 0; round < 500; ++round) {
                const EventHandle event = driver->record(stream);
                driver->wait((stream + 1) % 4, event);
                if (round % 3 == 0) {
                    driver->synchronize(event);
                    EXPECT_TRUE(driver->passed(event));
                }
                driver->destroy_event(event);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(fake_cuda::calls("cuEventCreate"), 4);
}

TEST_F(CudaDriverTest, WithoutStreamsGivenStreamZeroIsTheDefaultOne) {
    const auto driver = make_cuda_driver({.library = HEADROOM_FAKE_CUDA});
    const EventHandle event = driver->record(0);
    EXPECT_TRUE(driver->passed(event));
    driver->destroy_event(event);
    EXPECT_THROW(driver->record(1), DeviceError);
}

/// All that a driver can be asked for, once.
void use_all_of(Driver& driver) {
    EXPECT_GT(driver.free_bytes(), 0u);
    std::byte* const address = driver.reserve(kPage);
    const std::vector pages{driver.create()};
    driver.map(address, pages);
    driver.unmap(address, 1);
    driver.destroy(pages[0]);
    driver.release(address, kPage);
    driver.free_pinned(driver.allocate_pinned(100), 100);
    const EventHandle event = driver.record(0);
    driver.wait(1, event);
    driver.synchronize(event);
    EXPECT_TRUE(driver.passed(event));
    driver.destroy_event(event);
}

TEST_F(CudaDriverTest, LeavesTheThreadsCurrentContextAsItWas) {
    fake_cuda::reset({.devices = 2});
    const auto driver = open_fake_cuda(0);
    EXPECT_EQ(fake_cuda::thread(), fake_cuda::Thread{});
    use_all_of(*driver);
    EXPECT_EQ(fake_cuda::thread(), fake_cuda::Thread{});
    fake_cuda::fail("cuMemCreate", CUDA_ERROR_INVALID_VALUE);
    EXPECT_THROW(driver->create(), DeviceError);
    EXPECT_EQ(fake_cuda::thread(), fake_cuda::Thread{});
    for (const CUdevice device : {1, 0}) {
        CUcontext context = nullptr;
        ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
        use_all_of(*driver);
        EXPECT_EQ(fake_cuda::thread(), (fake_cuda::Thread{.contexts = 1, .device = device}));
        ASSERT_EQ(cuCtxPopCurrent(&context), CUDA_SUCCESS);
        ASSERT_EQ(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
    }
    std::thread([&] { use_all_of(*driver); }).join();
}

TEST_F(CudaDriverTest, WorksWhileAStreamIsCaptured) {
    fake_cuda::reset({.capturing = true});
    use_all_of(*open_fake_cuda());
}

TEST_F(CudaDriverTest, TwoDriversOfOneDeviceKeepItsContextUntilTheLastGoes) {
    auto first = open_fake_cuda();
    auto second = open_fake_cuda();
    EXPECT_EQ(fake_cuda::usage().contexts, 2);
    first.reset();
    use_all_of(*second);
    second.reset();
    EXPECT_EQ(fake_cuda::usage().contexts, 0);
}

TEST_F(CudaDriverTest, ARealDeviceDoesTheSame) {
    std::unique_ptr<Driver> driver;
    try {
        driver = make_cuda_driver({.streams = {nullptr, nullptr}});
    } catch (const DeviceError& error) {
        GTEST_SKIP() << error.what();
    }
    use_all_of(*driver);
    std::byte* const address = driver->reserve(driver->properties().address_bytes);
    const auto pages = create_pages(*driver, 64);
    driver->map(address, pages);
    driver->unmap(address, 32);
    driver->map(address, std::span(pages).first(32));
    driver->unmap(address, 64);
    destroy_pages(*driver, pages);
    driver->release(address, driver->properties().address_bytes);
}

}  // namespace cuda_driver_test
}  // namespace headroom::memory::test
