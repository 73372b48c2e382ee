#pragma once
// The device that a test of kernels runs on: the processor, or a GPU, which is the emulator in builds for it. A test is
// written once, for both. Arrays are made on the host and copied whole, gaps included, so that what a kernel writes
// beside its elements is found.
//
//     using Softmax = DeviceTest;
//     TEST_P(Softmax, IsZeroWhereItIsMasked) {
//         TestArray x(Dtype::f16, {3, 1025}), y(Dtype::f16, {3, 1025});
//         const View in = device.put(x), out = device.put(y);
//         device.run([&](auto& stream) { softmax(stream, in, out); });
//         device.get(out, y);                            // waits
//     }
//     INSTANTIATE_TEST_SUITE_P(Devices, Softmax, testing::ValuesIn(kPlaces), place_name);
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <headroom/kernels/stream.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

class Gpu;

enum class Place { cpu, gpu };

#if HEADROOM_CUDA_KERNELS
inline constexpr Place kPlaces[] = {Place::cpu, Place::gpu};
#else
inline constexpr Place kPlaces[] = {Place::cpu};
#endif

inline std::string place_name(const testing::TestParamInfo<Place>& info) {
    return info.param == Place::cpu ? "cpu" : "gpu";
}

/// False where a GPU is needed and there is none.
bool is_there(Place place);

class Device {
  public:
    /// `index`: of the GPU.
    explicit Device(Place place, int threads = 2, int index = 0);
    ~Device();

    Place place() const { return place_; }
    /// A copy on the device with the same strides; lives as long as this.
    View put(const TestArray& x);
    /// Brings back what `put` copied, gaps included. What lies behind scratch must be as it was.
    void get(const View& view, TestArray& x);

    template <class Work>
    void run(Work&& work) {
        launch(stream_, work);
    }
    /// A call that is planned: `Plan(stream, arguments...)`, with the scratch that it asks for.
    template <class Plan, class... Arguments>
    void run(const Arguments&... arguments) {
        const Plan plan(stream_, arguments...);
        std::byte* memory = scratch([&](const Stream& stream) { return Plan(stream, arguments...).scratch(); });
        launch(stream_, [&](auto& stream) { plan.run(stream, memory); });
    }
    /// As many bytes as `size(stream)`, filled with NaN, and not one more. A dry stream must give the same size.
    std::byte* scratch(const std::function<std::size_t(Stream&)>& size);

    /// `call` meets an index that is out of bounds. The processor refuses it before it writes anything: an error with
    /// the position and the bound. A GPU goes on and notes what it met.
    void expect_index_error(const std::string& what, std::int64_t value, std::int64_t position, std::int64_t bound,
                            const std::function<void()>& call, std::int64_t first = 0);

    /// The GPU, null on the processor.
    Gpu* gpu() { return gpu_.get(); }

  private:
    Place place_;
    std::shared_ptr<Gpu> gpu_;  ///< shared: builds without CUDA have no such class
    StreamState state_;
    Stream stream_;
    std::deque<TestArray> arrays_;  // on the processor
    struct Scratch {
        std::byte* end;
        std::unique_ptr<std::byte[]> own;  ///< on the processor
    };
    std::deque<Scratch> scratch_;
};

/// A test that runs on each device of the build, and is skipped on a GPU where there is none.
class DeviceTest : public testing::TestWithParam<Place> {
  protected:
    void SetUp() override {
        if (!is_there(GetParam())) GTEST_SKIP() << "there is no GPU";
        own_ = std::make_unique<Device>(GetParam());
    }
    Device& device() { return *own_; }
    bool on_gpu() const { return GetParam() == Place::gpu; }

    std::mt19937_64 random{17};

  private:
    std::unique_ptr<Device> own_;
};

}  // namespace headroom::kernels::test
