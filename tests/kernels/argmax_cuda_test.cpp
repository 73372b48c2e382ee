#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using test::CudaTest;
using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ArgmaxCuda : public CudaTest {
  protected:
    /// Both on the device and on the host, of small integers with many ties, infinities and some NaN.
    void compare(Dtype dtype, const Shape& shape, int axis, Layout layout, std::mt19937_64& random, double nans) {
        std::uniform_real_distribution<double> uniform;
        TestArray x(dtype, shape, layout);
        x.fill_indices(random, 5);
        for (std::int64_t i = 0; i < x.numel(); ++i) {
            if (uniform(random) < 0.1) x.set(i, i % 2 == 0 ? kInfinity : -kInfinity);
            if (uniform(random) < nans) x.set(i, kNan);
        }
        Shape to = shape;
        to[axis] = 1;
        TestArray high(Dtype::i64, to, layout), low(Dtype::i64, to), host_high(Dtype::i64, to),
            host_low(Dtype::i64, to);
        const View dx = gpu->put(x), to_high = gpu->put(high), to_low = gpu->put(low);
        argmax(gpu->stream, dx, axis, to_high);
        argmin(gpu->stream, dx, axis, to_low);
        gpu->get(to_high, high), gpu->get(to_low, low);
        CpuStream host;
        argmax(host, x, axis, host_high);
        argmin(host, x, axis, host_low);
        ASSERT_EQ(high.values(), host_high.values()) << describe(x) << " along " << axis;
        ASSERT_EQ(low.values(), host_low.values()) << describe(x) << " along " << axis;
        ASSERT_TRUE(high.gaps_untouched());
    }
};

TEST_F(ArgmaxCuda, FindsTheHostsPositionForEveryDtypeLayoutAndAxis) {
    std::mt19937_64 random(121);
    const Shape shapes[] = {{1}, {7}, {33}, {2, 3, 4}, {9, 31}, {3, 1025}, {40, 33}, {2, 2500}, {0, 3}};
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const Shape& shape : shapes) {
                for (int axis = 0; axis < shape.rank(); ++axis) {
                    if (shape[axis] == 0) continue;
                    compare(dtype, shape, axis, layout, random, 0);
                    compare(dtype, shape, axis, layout, random, 0.02);
                }
            }
        }
    }
}

TEST_F(ArgmaxCuda, SeesAllOfALongLine) {
    for (const std::int64_t place : {-1, 0, 255, 256, 4321, 4999}) {
        TestArray x(Dtype::f32, {5000}), y(Dtype::i64, {1});
        for (std::int64_t i = 0; i < 5000; ++i) x.set(i, -kInfinity);
        if (place >= 0) x.set(place, -1);
        const View dy = gpu->put(y);
        argmax(gpu->stream, gpu->put(x), 0, dy);
        gpu->get(dy, y);
        EXPECT_EQ(y.get_integer(0), std::max<std::int64_t>(place, 0));
    }
}

}  // namespace
}  // namespace headroom::kernels
