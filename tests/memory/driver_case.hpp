#pragma once
// The drivers on which every promise of the allocator is tested. A new driver adds one line.
//
//     class Promise : public DriverTest {};
//     TEST_P(Promise, IsKept) { DeviceMemory memory(driver()); ... }
//     INSTANTIATE_TEST_SUITE_P(Drivers, Promise, all_drivers(), driver_name);
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/driver.hpp>
#include <headroom/tests/memory/checked_driver.hpp>
#if HEADROOM_HAS_CUDA
#include <headroom/tests/memory/fake_cuda.hpp>
#endif

namespace headroom::memory::test {

struct DriverCase {
    std::string name;
    std::unique_ptr<Driver> (*make)();
};

inline std::unique_ptr<Driver> make_simulated_gpu() {
    SimulatedOptions options;
    options.properties = {.name = "simulated GPU",
                          .granularity = 2 << 20,
                          .alignment = 512,
                          .total_bytes = 1'000'000'000,
                          .address_bytes = std::size_t{1} << 40,
                          .touchable = false};
    options.event_latency = 100;
    return make_simulated_driver(options);
}

inline std::unique_ptr<Driver> make_simulated_small_pages() {
    SimulatedOptions options;
    options.properties = {.name = "small pages",
                          .granularity = 12288,
                          .alignment = 16,
                          .total_bytes = 100'000'000,
                          .address_bytes = std::size_t{12288} << 20,
                          .touchable = false};
    options.event_latency = 7;
    return make_simulated_driver(options);
}

inline auto all_drivers() {
    return ::testing::Values(
#if HEADROOM_HAS_CUDA
        DriverCase{"Cuda", make_fake_cuda},
#endif
        DriverCase{"Host", make_host_driver}, DriverCase{"SimulatedHost", make_simulated_host_driver},
        DriverCase{"SimulatedGpu", make_simulated_gpu}, DriverCase{"SmallPages", make_simulated_small_pages});
}

inline std::string driver_name(const ::testing::TestParamInfo<DriverCase>& info) { return info.param.name; }

class DriverTest : public ::testing::TestWithParam<DriverCase> {
  protected:
#if HEADROOM_HAS_CUDA
    void TearDown() override { EXPECT_EQ(fake_cuda::take_misuses(), std::vector<std::string>{}); }
#endif
    /// A fresh driver of the case; misuse of it fails the test.
    std::unique_ptr<Driver> driver() { return std::make_unique<CheckedDriver>(GetParam().make(), log_); }
    std::size_t granule() const { return properties_.granularity; }
    std::size_t unit() const { return properties_.alignment; }
    const DriverProperties& properties() const { return properties_; }
    /// Work is queued, so that streams and the host must wait for it.
    bool asynchronous() const { return !properties_.synchronous; }
    DriverLog& log() { return log_; }

  private:
    DriverLog log_;
    const DriverProperties properties_ = GetParam().make()->properties();
};

}  // namespace headroom::memory::test
