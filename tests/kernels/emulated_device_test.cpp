// Of what the emulated GPU takes its memory.
#include <headroom/kernels/device/cuda_device.hpp>

#include <gtest/gtest.h>

#include <headroom/memory/driver.hpp>

namespace headroom::kernels {
namespace {

/// As on a GPU: so nothing may count on the bytes that were free before.
TEST(EmulatedDevice, AGraphTakesMemoryAsLongAsItLives) {
    const std::unique_ptr<CudaDevice> device = open_cuda_device(0);
    const std::unique_ptr<memory::Driver> driver = device->make_driver();
    const std::size_t before = driver->free_bytes();
    const int from = 7;
    int to = 0;
    const auto captured = [&](int copies) {
        device->begin_capture();
        for (int i = 0; i < copies; ++i) device->copy(&from, &to, sizeof to);
        return device->end_capture();
    };
    std::unique_ptr<CudaGraph> one = captured(1);
    const std::size_t taken = before - driver->free_bytes();
    EXPECT_GT(taken, 0u);
    EXPECT_EQ(to, 0);
    device->launch(*one);
    EXPECT_EQ(to, 7);
    std::unique_ptr<CudaGraph> more = captured(5);
    EXPECT_GT(before - driver->free_bytes(), 2 * taken);
    one.reset();
    more.reset();
    EXPECT_EQ(driver->free_bytes(), before);
    device->begin_capture();
    device->abandon_capture();
    EXPECT_EQ(driver->free_bytes(), before);
}

}  // namespace
}  // namespace headroom::kernels
