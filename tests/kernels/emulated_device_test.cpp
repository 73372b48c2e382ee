// Of what the emulated GPU takes its memory, and who waits for it.
#include <headroom/kernels/device/cuda_device.hpp>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>
#include <headroom/memory/driver.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::kernels {
namespace emulated_device_test {

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

/// By their numbers or identities, in that order, up to the first that is of no GPU, as CUDA's programming guide has
/// it.
TEST(EmulatedDevice, IsOneOfThoseThatAreVisible) {
    const std::vector<std::string> all{cuda_uuid(0), cuda_uuid(1), cuda_uuid(2), cuda_uuid(3)};
    const auto seen = [](const std::string& chosen) {
        setenv("CUDA_VISIBLE_DEVICES", chosen.c_str(), 1);
        std::vector<std::string> gpus;
        for (int i = 0; i < cuda_device_count(); ++i) gpus.push_back(cuda_uuid(i));
        EXPECT_THROW(cuda_uuid(cuda_device_count()), DeviceError);
        unsetenv("CUDA_VISIBLE_DEVICES");
        return gpus;
    };
    using Gpus = std::vector<std::string>;
    EXPECT_EQ(seen("2,0"), (Gpus{all[2], all[0]}));
    EXPECT_EQ(seen(all[3] + ",1"), (Gpus{all[3], all[1]}));
    EXPECT_EQ(seen("1,4,0"), Gpus{all[1]});
    EXPECT_EQ(seen("-1,0"), Gpus{});
    EXPECT_EQ(seen(""), Gpus{});
    EXPECT_EQ(cuda_device_count(), 4);
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

}  // namespace emulated_device_test
}  // namespace headroom::kernels
