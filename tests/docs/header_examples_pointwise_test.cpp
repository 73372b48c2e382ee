// The examples of the headers of pointwise functions and kernels: each is compiled as the header shows it.
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/binary_functions.hpp>
#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/functions.hpp>
#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>  // not shown
#include <headroom/kernels/pointwise/unary_functions.hpp>      // not shown
#include <headroom/tests/docs/kernel_arrays.hpp>               // not shown

namespace headroom::kernels {  // not shown

template struct Compiled<CpuStream, UnaryFunctions>;

namespace header_examples_pointwise_test {

using test::array;
using test::expect_near;
using test::TestArray;

void activations_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx) {
    kernels::map(stream, kernels::GeluTanh{}, x, y);
    kernels::map_backward(stream, kernels::GeluTanh{}, x, dy, 0.0f, dx);
}

void binary_functions_example(CpuStream& stream, const View& a, const View& b, const View& y, const View& dy,
                              const View& da) {
    kernels::map(stream, kernels::Mul{}, a, b, y);
    kernels::map_backward_a(stream, kernels::Mul{}, a, b, dy, 0.0f, da);
}

void loss_functions_example(CpuStream& stream, const View& x, const View& y, const View& losses, const View& dloss,
                            const View& dx) {
    kernels::map(stream, kernels::SquaredDifference{}, x, y, losses);
    kernels::map_backward_a(stream, kernels::SquaredDifference{}, x, y, dloss, 0.0f, dx);
}

void pointwise_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx,
                       const View& bias, const View& a, const View& b, const View& db) {
    kernels::map(stream, GeluTanh{}, x, y);
    kernels::map_backward(stream, GeluTanh{}, x, dy, 0.0f, dx);
    kernels::map(stream, Add{}, x, bias, y);
    kernels::map_backward_b(stream, Mul{}, a, b, dy, 1.0f, db);
}

struct Cube {
    static constexpr const char* name = "cube";
    static constexpr Saves saves = Saves::input;
    template <class T>
    constexpr T operator()(T x) const {
        return x * x * x;
    }
    template <class T>
    constexpr T derivative(T x) const {
        return 3 * x * x;
    }
};

void pointwise_loops_example(CpuStream& stream, const View& x, const View& y) {  // not shown
    kernels::map(stream, Cube{}, x, y);
}

void reduction_functions_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx,
                                 const View& largest, const View& scaled) {
    kernels::map_backward_a(stream, kernels::LogSumExpTerm{}, x, largest, scaled, 0.0f, dx);
    kernels::map(stream, kernels::QuotientOrZero{}, dy, y, scaled);
}

void unary_functions_example(CpuStream& stream, const View& x, const View& y) {
    kernels::map(stream, kernels::Relu{}, x, y);
    kernels::map(stream, kernels::Clamp{-1.0, 1.0}, x, y);
}

TEST(HeaderExamples, OfPointwiseFunctionsRun) {
    CpuStream stream;
    const TestArray x = array({1, 2}, {0}), y = array({1, 2}, {7}), dy = array({1, 2}, {1}), dx = array({1, 2}, {7});
    activations_example(stream, x, y, dy, dx);
    expect_near(y, {0, 0});
    expect_near(dx, {0.5, 0.5});

    const TestArray a = array({1, 2}, {2, -3}), b = array({2}, {5, 7}), db = array({1, 2}, {1});
    binary_functions_example(stream, a, b, y, dy, dx);
    expect_near(y, {10, -21});
    expect_near(dx, {5, 7});
    pointwise_example(stream, x, y, dy, dx, b, a, b, db);
    expect_near(y, {5, 7});
    expect_near(dx, {0.5, 0.5});
    expect_near(db, {3, -2});

    loss_functions_example(stream, a, dy, y, array({}, {0.5}), dx);
    expect_near(y, {1, 16});
    expect_near(dx, {1, -4});
    unary_functions_example(stream, a, y);
    expect_near(y, {1, -1});
    const TestArray scaled = array({1, 2}, {1});
    reduction_functions_example(stream, a, a, dy, dx, a, scaled);
    expect_near(dx, {1, 1});
    expect_near(scaled, {0.5, -1.0 / 3});
    pointwise_loops_example(stream, a, y);
    expect_near(y, {8, -27});
}

}  // namespace header_examples_pointwise_test
}  // namespace headroom::kernels
