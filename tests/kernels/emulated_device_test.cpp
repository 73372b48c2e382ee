// Of what the emulated GPU takes its memory, and who waits for it.
#include <headroom/kernels/device/cuda_device.hpp>

#include <cstdint>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/kernels/device/internal/emulated_queues.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>
#include <headroom/memory/driver.hpp>
#include <headroom/memory/progress.hpp>

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

/// So that the watch over ranks (dist) does not take it for one that hangs.
TEST(EmulatedDevice, AThreadThatWaitsForItIsSeenToWait) {
    const std::unique_ptr<CudaDevice> device = open_cuda_device(0);
    dynamic_cast<EmulatedControls&>(*device).set_order(EmulatedOrder::copies_first);
    auto* const compute = static_cast<device::EmulatedDevice*>(device->native());
    const memory::Progress& own = memory::progress_of_this_thread();
    const int from = 7;
    int to = 0;
    const std::function<void()> waits[] = {[&] { device->copy_to_host(&from, &to, sizeof to); },
                                           [&] { device->synchronize(); }};
    for (const auto& wait : waits) {
        int seen = -1;
        compute->call([&] { seen = own.waits; });
        EXPECT_EQ(seen, -1) << "nobody has waited";
        const std::uint64_t steps = own.steps;
        wait();
        EXPECT_EQ(seen, 1);
        EXPECT_EQ(own.waits, 0);
        EXPECT_EQ(own.steps, steps + 1);
    }
}

}  // namespace
}  // namespace headroom::kernels
