#pragma once
// What tests of pointwise kernels on a GPU share: a call on copies of its inputs, and the comparison with f64.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels::test {

class PointwiseCudaTest : public CudaTest {
  protected:
    CpuStream cpu{1};

    /// What a call wrote to `y`, given the device's copies of `inputs` and of y.
    template <class Call>
    void on_gpu(const std::vector<const TestArray*>& inputs, TestArray& y, Call&& call) {
        std::vector<View> views;
        for (const TestArray* input : inputs) views.push_back(gpu->put(*input));
        const View result = gpu->put(y);
        call(gpu->stream, views, result);
        gpu->get(result, y);
        EXPECT_TRUE(y.gaps_untouched()) << describe(y);
    }
};

/// y is `expected` (f64, contiguous) but for `ulps` units of what it was computed in, and its own rounding; `floor`: of
/// the largest number in between.
inline void expect_near(const TestArray& y, const TestArray& expected, Dtype computed_in, double ulps,
                        double floor = 0) {
    const double unit = epsilon(computed_in) / 2;
    for (std::int64_t i = 0; i < y.numel(); ++i) {
        const double truth = expected.get(i), result = y.get(i);
        if (std::isnan(truth) || std::isinf(truth)) {
            ASSERT_TRUE(std::isnan(truth) ? std::isnan(result) : result == truth) << i << " of " << describe(y);
            continue;
        }
        const double rounded = is_half(y.view().dtype) ? rounding(y.view().dtype, truth) : 0;
        const double error = unit * (ulps * std::max(std::abs(truth), 0x1p-126) + floor) + rounded;
        ASSERT_NEAR(result, truth, error) << "element " << i << " of " << describe(y);
    }
}

}  // namespace headroom::kernels::test
