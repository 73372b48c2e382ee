#pragma once
// For kernels on arrays of real sizes beyond 32 bits, in memory of which only the touched pages exist. The emulator
// runs the first block of a large grid, the last and some in between; the ends of results are looked at. Rows that lie
// far apart are in the kernels' tables.
//
//     TEST_P(LargeArrays, AreFilled) {
//         const View y = array(Dtype::u8, {k32 + kOdd});
//         fill(stream(), 7, y);
//         expect(y, [](std::int64_t) { return 7; });
//     }
//     INSTANTIATE_TEST_SUITE_P(Gpus, LargeArrays, testing::Bool(), gpu_name);
#include <cmath>
#include <deque>
#include <memory>
#include <string>

#include <headroom/kernels/random/philox.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#include <headroom/tests/kernels/reserved_memory.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::kernels::test {

inline constexpr std::int64_t k31 = std::int64_t{1} << 31, k32 = std::int64_t{1} << 32;
inline constexpr std::int64_t kOdd = 1029;  ///< so that vectors leave a rest
inline constexpr RandomKey kKey{7, 11};

inline double get(const View& x, std::int64_t i) { return load_one<double>(x.at(offset_of(x, i)), x.dtype); }
inline void set(const View& x, std::int64_t i, double value) { store_one(value, x.at(offset_of(x, i)), x.dtype); }

/// On the first GPU and, for true, on the emulator's of compute capability 7.5.
class LargeArrays : public CudaTest, public testing::WithParamInterface<bool> {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (!gpu) return;
        if (GetParam()) gpu = std::make_unique<Gpu>(another_gpu(Dtype::f16));
        controls = dynamic_cast<EmulatedControls*>(gpu->device.get());
        if (controls == nullptr || kRaces) GTEST_SKIP() << "takes more memory than there is";
        controls->run_at_most(256);  // a sort has a block for each digit
    }
    /// Zeros, from the memory's element `first` on.
    View array(Dtype dtype, const Shape& shape, std::int64_t first = 0) {
        const auto elements = static_cast<std::size_t>(shape.numel() + first + 16);
        memory_.push_back(std::make_unique<ReservedMemory>(elements * size_of(dtype)));
        View view = contiguous_view(memory_.back()->data(), dtype, shape);
        view.data = view.at(first);
        return view;
    }
    CudaStream& stream() { return gpu->stream; }
    std::byte* scratch(std::size_t bytes) {
        memory_.push_back(std::make_unique<ReservedMemory>(bytes + 256));
        return memory_.back()->data();
    }

    /// The first elements of an array and the last.
    template <class Work>
    static void at_the_ends(std::int64_t numel, const Work& work) {
        for (std::int64_t i = 0; i < 16; ++i) work(i), work(numel - 1 - i);
    }
    static void number(const View& x) {
        at_the_ends(x.numel(), [&](std::int64_t i) { set(x, i, 1 + static_cast<double>(i % 29)); });
    }
    template <class Expected>
    static void expect(const View& y, const Expected& expected, double relative = 0) {
        at_the_ends(y.numel(), [&](std::int64_t i) {
            const double value = stored(y.dtype, expected(i));
            ASSERT_NEAR(get(y, i), value, relative * std::abs(value)) << "element " << i;
        });
    }

    EmulatedControls* controls = nullptr;

  private:
    std::deque<std::unique_ptr<ReservedMemory>> memory_;
};

inline std::string gpu_name(const testing::TestParamInfo<bool>& info) { return info.param ? "old_gpu" : "gpu"; }

}  // namespace headroom::kernels::test
