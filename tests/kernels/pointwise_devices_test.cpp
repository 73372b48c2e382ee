// What pointwise kernels make of layouts, dtypes, broadcasting and beta, by functions that cost the emulator little.
// Each function's numbers are functions_devices_test's.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>
#if HEADROOM_CUDA_KERNELS
#include <headroom/tests/kernels/gpu.hpp>
#endif

namespace headroom::kernels {
namespace pointwise_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Element i of `shape`, in an array that is broadcast to it.
double at(const TestArray& x, const Shape& shape, std::int64_t i) {
    const Shape& own = x.view().shape;
    const Strides strides = contiguous_strides(own);
    std::int64_t position = 0;
    for (int axis = shape.rank() - 1, k = own.rank() - 1; k >= 0; --axis, --k) {
        if (own[k] != 1) position += i % shape[axis] * strides[k];
        i /= shape[axis];
    }
    return x.get(position);
}

Trial map_trial(const Variant& v, Random& random, const Shape& shape, Dtype target) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, normal(random));
    Output& y = trial.output(target, shape, v.out);
    if (target == v.dtype) y.over = 0;
    const bool wide = (v.dtype == Dtype::f64 || target == Dtype::f64) && target != Dtype::f32;
    const double unit = epsilon(wide ? Dtype::f64 : Dtype::f32);
    for (std::int64_t i = 0; i < x.numel(); ++i) y.expect(3 * x.get(i) - 1, unit * (std::abs(3 * x.get(i)) + 8));
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { map(stream, Affine{3.0, -1.0}, in[0], out[0]); });
    };
    return trial;
}

Trial broadcast_trial(const Variant& v, Random& random, const Shape& a_shape, const Shape& b_shape,
                      const Shape& shape) {
    Trial trial;
    const TestArray& a = trial.input(Dtype::f32, a_shape, v.in, normal(random));
    const TestArray& b = trial.input(v, b_shape, normal(random));
    Output& y = trial.output(v, shape);
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const double product = at(a, shape, i) * at(b, shape, i);
        y.expect(product, epsilon(compute_dtype(v.dtype)) * std::abs(product));
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { map(stream, Mul{}, in[0], in[1], out[0]); });
    };
    return trial;
}

/// Of squares, from a dy of its own layout, for betas of 0, 1 and 0.5.
Trial gradient_trial(const Variant& v, Random& random, const Shape& shape, Dtype target) {
    Trial trial;
    const TestArray &x = trial.input(v, shape, normal(random)),
                    &dy = trial.input(v.dtype, shape, Layout::contiguous, normal(random));
    const double unit = epsilon(target == Dtype::f64 ? Dtype::f64 : Dtype::f32);
    for (const float beta : {0.0f, 1.0f, 0.5f}) {
        Output& dx = trial.output(target, shape, v.out, beta == 0 ? Fill() : normal(random));
        for (std::int64_t i = 0; i < x.numel(); ++i) {
            const double old = beta == 0 ? 0 : beta * dx.before(), product = 2 * x.get(i) * dy.get(i);
            dx.expect(old + product, 2 * unit * (std::abs(old) + std::abs(product)) + 0x1p-1000);
        }
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            map_backward(stream, Square{}, in[0], in[1], 0.0f, out[0]);
            map_backward(stream, Square{}, in[0], in[1], 1.0f, out[1]);
            map_backward(stream, Square{}, in[0], in[1], 0.5f, out[2]);
        });
    };
    return trial;
}

/// The gradient of a sum of squared differences: one number is spread.
Trial spread_trial(const Variant& v, Random& random, const Shape& shape) {
    Trial trial;
    const TestArray &x = trial.input(v, shape, normal(random)),
                    &to = trial.input(Dtype::f32, shape, v.in, normal(random));
    trial.input(Dtype::f32, {}, v.in, all(0.25));
    Output& dx = trial.output(v, shape);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        const double value = 0.5 * (x.get(i) - to.get(i));
        dx.expect(value, 2 * epsilon(compute_dtype(v.dtype)) * std::abs(value) + 0x1p-1000);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const View dy = broadcast_to(in[2], shape);
        device.run([&](auto& s) { map_backward_a(s, SquaredDifference{}, in[0], in[1], dy, 0.0f, out[0]); });
    };
    return trial;
}

/// Sums and comparisons of integers and truth values.
Trial integer_trial(const Variant& v, Random& random, Dtype second) {
    Trial trial;
    const TestArray &a = trial.input(v, {45}, indices(random, 5)),
                    &b = trial.input(second, {45}, v.in, indices(random, 5));
    Output &sum = trial.output(second, {45}, v.out), &less = trial.output(Dtype::boolean, {45}, v.out);
    for (std::int64_t i = 0; i < 45; ++i) {
        const double value = a.get(i) + b.get(i);
        sum.expect(second == Dtype::boolean ? value != 0 : value, 0), less.expect(a.get(i) < b.get(i), 0);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& s) { map(s, Add{}, in[0], in[1], out[0]), map(s, Less{}, in[0], in[1], out[1]); });
    };
    return trial;
}

/// A choice between an array and a number, which may be NaN where it is not chosen, and its gradients.
Trial where_trial(const Variant& v, Random& random, const Shape& shape, const Shape& condition_shape, Dtype kind) {
    Trial trial;
    const TestArray& condition = trial.input(kind, condition_shape, v.in, indices(random, 2));
    const TestArray& a = trial.input(v, shape, normal(random, 0, 9));
    const TestArray& b = trial.input(v, {}, all(is_floating(v.dtype) ? kNan : 3));
    Output& y = trial.output(v, shape);
    const bool gradients = is_floating(v.dtype);
    if (gradients) trial.output(v, shape), trial.output(Dtype::f32, shape, v.out, normal(random));
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const bool chosen = at(condition, shape, i) != 0;
        y.expect(chosen ? a.get(i) : b.get(0), 0);
        if (!gradients) continue;
        const double dy = a.get(i), old = trial.out[2].before();
        trial.out[1].expect(chosen ? dy : 0, 0);
        trial.out[2].expect(old + (chosen ? 0 : dy), epsilon(Dtype::f32) * (std::abs(old) + std::abs(dy)));
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            where(stream, in[0], in[1], in[2], out[0]);
            if (!gradients) return;
            where_backward(stream, in[0], true, in[1], 0.0f, out[1]);
            where_backward(stream, in[0], false, in[1], 1.0f, out[2]);
        });
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kWhole[] = {Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean, Dtype::f32};
    static constexpr Dtype kChosen[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64, Dtype::i32};
    struct Broadcast {
        Shape a, b, y;
    };
    Cases result;
    // Walks that differ: one run, several, a scalar, rows that merge and that do not, eight together and not; nothing.
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{7}, Shape{8}, Shape{9}, Shape{31}, Shape{5, 37}, Shape{3, 1, 50}, Shape{2, 3, 4, 5},
          Shape{5, 16}, Shape{3, 4, 24}, Shape{6, 13}, Shape{2, 2500}, Shape{40, 300}, Shape{2, 0, 3}}) {
        for (const Dtype target : kFloating) {
            result.add("map/" + to_name(shape) + "_to_" + std::string(name(target)), map_trial, shape, target)
                .only(kFloating, layouts_for(shape));
        }
    }
    result.add("map/100000", map_trial, Shape{100000}, Dtype::f32).only(kF32, kAllLayouts).only_on(kPlaces[0]);
    for (const auto& [a, b, y] :
         {Broadcast{{4, 5}, {5}, {4, 5}}, Broadcast{{4, 16}, {16}, {4, 16}}, Broadcast{{4, 16}, {4, 1}, {4, 16}},
          Broadcast{{4, 1}, {1, 24}, {4, 24}}, Broadcast{{4, 1}, {1, 5}, {4, 5}}, Broadcast{{}, {300}, {300}},
          Broadcast{{3001}, {}, {3001}}, Broadcast{{2, 3, 1}, {3, 4}, {2, 3, 4}},
          Broadcast{{2, 3, 1}, {3, 8}, {2, 3, 8}}, Broadcast{{2, 1, 4, 1}, {3, 1, 40}, {2, 3, 4, 40}},
          Broadcast{{2, 1, 4, 1}, {3, 1, 7}, {2, 3, 4, 7}}, Broadcast{{1, 2500}, {2, 1}, {2, 2500}}}) {
        result.add("broadcast/" + to_name(a) + "_and_" + to_name(b), broadcast_trial, a, b, y);
    }
    for (const Dtype target : kFloating) {
        result.add("gradient/3x35_to_" + std::string(name(target)), gradient_trial, Shape{3, 35}, target);
        result.add("gradient/33x72_to_" + std::string(name(target)), gradient_trial, Shape{33, 72}, target);
    }
    result.add("gradient/4133", gradient_trial, Shape{4133}, Dtype::f32);  // several blocks, and a rest
    result.add("gradient/of_a_scalar", spread_trial, Shape{5, 40});
    for (const Dtype second : kWhole) {
        result.add("integers/with_" + std::string(name(second)), integer_trial, second).only(kWhole, layouts_for({45}));
    }
    for (const Dtype kind : {Dtype::boolean, Dtype::f16, Dtype::i64}) {
        for (const auto& [rows, width] : {std::pair{1, 61}, {1, 64}, {5, 61}}) {
            result
                .add("where/" + std::to_string(rows) + "x" + std::to_string(width) + "_by_" + std::string(name(kind)),
                     where_trial, Shape{5, width}, Shape{rows, width}, kind)
                .only(kChosen, kAllLayouts);
        }
    }
    return result;
}

const bool rows = add_rows("PointwiseRows", cases());

using Pointwise = DeviceTest;

TEST_P(Pointwise, MayWriteOverItsInputInAnyLayout) {
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            TestArray x(dtype, {70, 43}, layout), apart(dtype, {70, 43}, layout);
            x.fill(random);
            const View in = device().put(x), out = device().put(apart);
            device().run([&](auto& stream) { map(stream, GeluTanh{}, in, out), map(stream, GeluTanh{}, in, in); });
            device().get(in, x), device().get(out, apart);
            EXPECT_EQ(x.memory(), apart.memory()) << describe(x);
        }
    }
}

TEST_P(Pointwise, ComputesLargeIntegersExactly) {
    const std::int64_t large = (1LL << 60) + 1, in[2][3] = {{large, -5, 7}, {2, 9, 7}};
    TestArray a(Dtype::i64, {3}), b(a), y(a);
    std::copy_n(in[0], 3, a.view().as<std::int64_t>()), std::copy_n(in[1], 3, b.view().as<std::int64_t>());
    const View va = device().put(a), vb = device().put(b);
    const auto results = [&](const auto& f) {
        const View out = device().put(y);
        device().run([&](auto& stream) { f(stream, out); });
        device().get(out, y);
        return std::vector{y.get_integer(0), y.get_integer(1), y.get_integer(2)};
    };
    using Integers = std::vector<std::int64_t>;
    EXPECT_EQ(results([&](auto& s, const View& out) { map(s, Add{}, va, vb, out); }), (Integers{large + 2, 4, 14}));
    EXPECT_EQ(results([&](auto& s, const View& out) { map(s, Sub{}, va, vb, out); }), (Integers{large - 2, -14, 0}));
    EXPECT_EQ(results([&](auto& s, const View& out) { map(s, Maximum{}, va, vb, out); }), (Integers{large, 9, 7}));
    EXPECT_EQ(results([&](auto& s, const View& out) { map(s, Neg{}, va, out); }), (Integers{-large, 5, -7}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Pointwise, testing::ValuesIn(kPlaces), place_name);

#if HEADROOM_CUDA_KERNELS
using PointwiseCuda = CudaTest;

/// More than the grid has threads for; and twice, in other orders of threads.
TEST_F(PointwiseCuda, GoesOnByTheSizeOfTheGrid) {
    Random random(9);
    const std::int64_t threads = 8 * gpu->device->properties().multiprocessors * 256;
    for (const bool together : {false, true}) {  // in general, and eight together
        const Variant variant{.in = together ? Layout::contiguous : Layout::gaps};
        Device device(Place::gpu);
        expect_values(device, map_trial(variant, random, {together ? 8 * threads + 2405 : threads + 77}, Dtype::f32));
    }
}
#endif

}  // namespace pointwise_devices_test
}  // namespace headroom::kernels
