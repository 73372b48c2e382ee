// Which GPU there is, or why none can be used: what cuda_device.cpp and cuda_error.cpp say of CUDA's answers.
#include <headroom/kernels/device/cuda_device.hpp>

#include <memory>
#include <string>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_error.hpp>
#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {
namespace runtime_gpu_test {

using testing::StartsWith;
using testing::ThrowsMessage;

TEST(RuntimeGpu, IsWhatCudaSays) {
    fake_runtime::reset(0);
    const std::unique_ptr<CudaDevice> device = open_cuda_device(0);
    EXPECT_EQ(device->properties().name, "fake runtime");
    EXPECT_EQ(device->properties().major, 9);
    EXPECT_EQ(device->properties().multiprocessors, 132);
    EXPECT_EQ(device->properties().blocks, 32);
    EXPECT_EQ(device->properties().shared_bytes, 227u * 1024);
    EXPECT_EQ(cuda_uuid(0), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    EXPECT_FALSE(device->take_index_error());
    EXPECT_THROW(open_cuda_device(1), DeviceError);
}

TEST(RuntimeGpu, IsAbsentForAReason) {
    const auto reason = [&](int driver, int gpus) -> std::string {
        fake_runtime::reset(0, 90, driver, gpus);
        EXPECT_EQ(cuda_device_count(), 0);
        try {
            open_cuda_device(0);
        } catch (const DeviceError& error) {
            return error.what();
        }
        return "";
    };
    constexpr int major = CUDART_VERSION / 1000, minor = CUDART_VERSION % 1000 / 10;
    EXPECT_EQ(reason(0, 1), "cuda: no NVIDIA driver was found; install it, or use --device cpu");
    EXPECT_EQ(
        reason(1000 * (major - 1) + 90, 1),
        fmt::format("cuda: the NVIDIA driver supports CUDA {}.9, but this program was built with {}.{}; update the "
                    "driver",
                    major - 1, major, minor));
    EXPECT_EQ(reason(1000 * major, 0), "cuda: no GPU was found (no error); check CUDA_VISIBLE_DEVICES");
    fake_runtime::reset(0, 90, 1000 * major);  // of the same major version, which suffices
    EXPECT_EQ(cuda_device_count(), 1);
    fake_runtime::reset(0);
}

/// That a driver is too old for the code that there is says the same as that there is no code.
TEST(RuntimeGpu, HasNoCodeOfTheProgram) {
    fake_runtime::reset(0);
    const std::unique_ptr<CudaDevice> device = open_cuda_device(0);
    for (const cudaError_t error : {cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion}) {
        EXPECT_THAT(
            [&] { check_cuda(device.get(), "launch", error); },
            ThrowsMessage<DeviceError>(StartsWith("cuda 0: this program has no code for this GPU; build it with")));
    }
}

}  // namespace runtime_gpu_test
}  // namespace headroom::kernels
