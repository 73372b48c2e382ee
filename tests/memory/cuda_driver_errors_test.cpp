// What the CUDA driver says when CUDA, or a part of it, is not there, and when a call fails.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <headroom/memory/cuda_driver.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/fake_cuda.hpp>

namespace headroom::memory::test {
namespace cuda_driver_errors_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CudaDriverErrors : public FakeCudaTest {};

/// What the call says when it throws; "nothing" if it does not.
std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const DeviceError& error) {
        return error.what();
    }
    return "nothing";
}

TEST_F(CudaDriverErrors, ACallThatFailsSaysWhatItWasAndWhatItMeans) {
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(2 * kPage);
    const auto pages = create_pages(*driver, 2);
    const EventHandle event = driver->record(0);
    struct Case {
        const char* function;
        std::string told;
        std::function<void()> call;
    };
    const std::vector<Case> cases = {
        {"cuMemGetInfo", "cuMemGetInfo", [&] { driver->free_bytes(); }},
        {"cuMemAddressReserve", "cuMemAddressReserve of 2097152 bytes", [&] { driver->reserve(5); }},
        {"cuMemCreate", "cuMemCreate of 2097152 bytes", [&] { driver->create(); }},
        {"cuMemMap", "cuMemMap of 2097152 bytes", [&] { driver->map(address, pages); }},
        {"cuMemSetAccess", "cuMemSetAccess of 4194304 bytes", [&] { driver->map(address, pages); }},
        {"cuMemHostAlloc", "cuMemHostAlloc of 77 bytes", [&] { driver->allocate_pinned(77); }},
        {"cuEventCreate", "cuEventCreate", [&] { driver->record(0); }},
        {"cuEventRecord", "cuEventRecord", [&] { driver->record(0); }},
        {"cuEventQuery", "cuEventQuery", [&] { driver->passed(event); }},
        {"cuStreamWaitEvent", "cuStreamWaitEvent", [&] { driver->wait(1, event); }},
        {"cuEventSynchronize", "cuEventSynchronize", [&] { driver->synchronize(event); }},
    };
    for (const Case& c : cases) {
        fake_cuda::fail(c.function, CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_EQ(error_of(c.call),
                  "CUDA device 0 (Fake GPU): " + c.told +
                      " failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
    }
    fake_cuda::fail("cuMemCreate", 998);
    EXPECT_EQ(error_of([&] { driver->create(); }),
              "CUDA device 0 (Fake GPU): cuMemCreate of 2097152 bytes failed: code 998 (unknown to this driver)");
    driver->destroy_event(event);
    destroy_pages(*driver, pages);
    driver->release(address, 2 * kPage);
}

TEST_F(CudaDriverErrors, AStreamThatWasNotGivenIsNamed) {
    const auto driver = open_fake_cuda(0, 2);
    const EventHandle event = driver->record(1);
    const std::string told = "CUDA device 0 (Fake GPU): stream 2 does not exist; make_cuda_driver was given 2 streams";
    EXPECT_EQ(error_of([&] { driver->record(2); }), told);
    EXPECT_EQ(error_of([&] { driver->wait(2, event); }), told);
    driver->destroy_event(event);
}

TEST_F(CudaDriverErrors, TheNextErrorTellsOfACallThatMayNotThrow) {
    const auto driver = open_fake_cuda();
    std::byte* const address = driver->reserve(kPage);
    const std::vector pages{driver->create()};
    driver->map(address, pages);
    fake_cuda::fail("cuMemUnmap", CUDA_ERROR_ILLEGAL_ADDRESS);
    driver->unmap(address, 1);
    fake_cuda::fail("cuMemCreate", CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(
        error_of([&] { driver->create(); }),
        "CUDA device 0 (Fake GPU): cuMemCreate of 2097152 bytes failed: CUDA_ERROR_INVALID_VALUE (invalid argument); "
        "before that, cuMemUnmap failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
    driver->unmap(address, 1);
    driver->destroy(pages[0]);
    driver->release(address, kPage);
}

TEST_F(CudaDriverErrors, SaysWhyThereIsNoDevice) {
    EXPECT_THAT(error_of([] { make_cuda_driver({.library = "libnot-there.so.1"}); }),
                AllOf(StartsWith("CUDA: the driver library can't be loaded (libnot-there.so.1: "),
                      HasSubstr("install NVIDIA's driver 440.33 or newer, or use the CPU")));
    EXPECT_THAT(error_of([] { make_cuda_driver({.library = "libm.so.6"}); }),
                AllOf(StartsWith("CUDA: the driver library (libm.so.6) lacks the function cuDriverGetVersion; "),
                      HasSubstr("install NVIDIA's driver")));
    fake_cuda::reset({.version = 10010});
    EXPECT_EQ(error_of([] { open_fake_cuda(); }),
              "CUDA: the driver supports CUDA 10.1, but 10.2 is needed; install driver 440.33 or newer");
    fake_cuda::reset({.devices = 0});
    EXPECT_EQ(error_of([] { open_fake_cuda(); }),
              "CUDA: no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the CPU");
    fake_cuda::reset();
    fake_cuda::fail("cuInit", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    EXPECT_EQ(
        error_of([] { open_fake_cuda(); }),
        "CUDA: cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported display driver); check that "
        "nvidia-smi works, or use the CPU");
}

TEST_F(CudaDriverErrors, SaysWhyThisDeviceIsNotTheOne) {
    EXPECT_EQ(error_of([] { open_fake_cuda(1); }),
              "CUDA: device 1 does not exist; 1 is visible, numbered from 0: check CUDA_VISIBLE_DEVICES");
    fake_cuda::reset({.devices = 2});
    EXPECT_THAT(error_of([] { open_fake_cuda(-1); }), HasSubstr("device -1 does not exist; 2 are visible"));
    fake_cuda::reset({.virtual_memory = false});
    EXPECT_EQ(error_of([] { open_fake_cuda(); }),
              "CUDA device 0 (Fake GPU) has no virtual memory management, which the allocator needs; use another "
              "GPU or the CPU");
    fake_cuda::reset({.granularity = 3 << 20});
    EXPECT_THAT(error_of([] { open_fake_cuda(); }), HasSubstr("granularity of 3145728 bytes is not a power of two"));
}

TEST_F(CudaDriverErrors, NothingIsLeftWhenOpeningFails) {
    fake_cuda::reset();
    for (const char* function : {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
                                 "cuDevicePrimaryCtxRetain", "cuDeviceTotalMem", "cuMemGetAllocationGranularity"}) {
        fake_cuda::fail(function, CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_THAT(error_of([] { open_fake_cuda(); }), HasSubstr(function + std::string(" failed: CUDA_ERROR_OUT")));
        EXPECT_EQ(fake_cuda::usage(), fake_cuda::Usage{});
    }
}

}  // namespace cuda_driver_errors_test
}  // namespace headroom::memory::test
