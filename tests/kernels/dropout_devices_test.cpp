// dropout, its gradient and dropout_add: every device computes the same bits.
#include <headroom/kernels/dropout/dropout.hpp>

#include <cmath>
#include <limits>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace dropout_devices_test {

using namespace test;

const RandomKey kKey = op_key(9, 4);

bool kept(std::int64_t i, float p) {
    const auto element = static_cast<std::uint64_t>(i);
    return philox(kKey, element / 4)[element % 4] >= static_cast<double>(p) * 0x1p32;
}

/// beta * before + x / (1 - p), each operation rounded by itself.
template <class T>
double rounded(float p, double x, bool keep, float beta, double before) {
    const T scale = p < 1 ? T(1) / (T(1) - static_cast<T>(p)) : T(0);
    const volatile T product = static_cast<T>(x) * scale, old = static_cast<T>(beta) * static_cast<T>(before);
    const T value = keep ? product : T(0);
    return beta == 0 ? value : old + value;
}

enum class Kind { values, gradient, sum, sum_over_x };

/// `other`: the dtype of the gradient, or of what is added to.
Trial dropout_trial(const Variant& v, Random& random, const Shape& shape, Kind kind, Dtype other, float p) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, normal(random));
    const bool adds = kind == Kind::sum || kind == Kind::sum_over_x;
    const TestArray* onto = adds ? &trial.input(other, shape, v.out, normal(random)) : nullptr;
    const std::vector<float> betas =
        kind == Kind::gradient ? std::vector{0.0f, 1.0f, 0.7f} : std::vector{adds ? 1.0f : 0.0f};
    std::vector<Dtype> targets{adds ? other : kind == Kind::values ? v.dtype : other};
    if (adds) targets = {other == Dtype::f64 ? Dtype::f32 : Dtype::f64, other};
    if (kind == Kind::sum) targets.push_back(v.dtype);
    for (const Dtype target : targets) {
        for (const float beta : betas) {
            Output& y =
                trial.output(target, shape, v.out, kind == Kind::gradient && beta != 0 ? normal(random) : Fill());
            const bool wide = v.dtype == Dtype::f64 || target == Dtype::f64 || (adds && other == Dtype::f64);
            TestArray expected(target, shape);
            for (std::int64_t i = 0; i < x.numel(); ++i) {
                const double before = adds ? onto->get(i) : beta == 0 ? 0 : y.before();
                const auto value = (wide ? rounded<double> : rounded<float>)(p, x.get(i), kept(i, p), beta, before);
                expected.set(i, value);
                y.expect(expected.get(i), 0);
            }
        }
    }
    if (kind == Kind::values || kind == Kind::sum) trial.out.back().over = 0;
    if (kind == Kind::sum_over_x) trial.out.back().over = 1;
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        for (std::size_t i = 0; i < out.size(); ++i) {
            device.run([&](auto& stream) {
                if (kind == Kind::values) return dropout(stream, kKey, p, in[0], out[i]);
                if (kind == Kind::gradient) return dropout_backward(stream, kKey, p, in[0], betas[i], out[i]);
                dropout_add(stream, kKey, p, in[0], in[1], out[i]);
            });
        }
    };
    return trial;
}

Cases cases() {
    const char* names[] = {"values/", "gradient/", "sum/", "sum_over_x/"};
    Cases result;
    const auto add = [&](const Shape& shape, Kind kind, Dtype other, float p) -> Case& {
        const std::string name =
            names[static_cast<int>(kind)] + to_name(shape) + "_with_" + std::string(kernels::name(other));
        return result.add(name, dropout_trial, shape, kind, other, p);
    };
    for (const Kind kind : {Kind::values, Kind::gradient, Kind::sum, Kind::sum_over_x}) {
        for (const Dtype other : kFloating) {
            if (kind == Kind::values && other != Dtype::f32) continue;
            for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{8}, Shape{9}, Shape{31}, Shape{33},
                                       Shape{1023}, Shape{1025}, Shape{0, 3}}) {
                add(shape, kind, other, 0.25f).only(kFloating);
            }
            for (const Shape& shape : {Shape{5, 16}, Shape{3, 37}, Shape{2, 3, 8}, Shape{2, 3, 5}}) {
                add(shape, kind, other, 0.4f);
            }
        }
        add({13, 701}, kind, Dtype::f32, 0.25f).only_on(kPlaces[0]);
        add({70001}, kind, Dtype::f32, 0.1f).only(kFloating).large = true;
    }
    for (const float p : {0.0f, 0x1p-32f, 0.5f, 0.999f, 1.0f}) {
        add({1000}, Kind::gradient, Dtype::f32, p).only(kF32).name += "_p_" + std::to_string(p);
    }
    return result;
}

const bool rows = add_rows("DropoutRows", cases());

class Dropout : public DeviceTest {
  protected:
    TestArray dropped(const TestArray& x, float p) {
        TestArray y(x);
        const View view = device().put(x);
        device().run([&](auto& stream) { dropout(stream, kKey, p, view, view); });
        device().get(view, y);
        return y;
    }
};

TEST_P(Dropout, DroppedNanIsZeroInPlace) {
    for (const Dtype dtype : kWide) {
        TestArray x(dtype, {1000});
        all(std::numeric_limits<double>::quiet_NaN())(x);
        const TestArray y = dropped(x, 0.5f);
        for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(std::isnan(y.get(i)), kept(i, 0.5f));
    }
}

TEST_P(Dropout, DropsTheShareThatWasAskedFor) {
    for (const float p : {0.0f, 0.1f, 0.5f, 0.9f, 1.0f}) {
        TestArray x(Dtype::f32, {20000});
        all(1)(x);
        double zeros = 0;
        for (const double value : dropped(x, p).values()) zeros += value == 0 ? 1 : 0;
        EXPECT_NEAR(zeros / 20000, p, 5 * std::sqrt(p * (1 - p) / 20000) + 1e-9);
    }
}

TEST_P(Dropout, AWordThatEqualsTheThresholdIsKept) {
    std::uint64_t i = 0;  // an element whose word is p 2^32 for a float p
    const auto word = [&] { return philox(kKey, i / 4)[i % 4]; };
    while (word() % 256 != 0 || word() < 1u << 31) ++i;
    TestArray x(Dtype::f32, {static_cast<std::int64_t>(i) + 1});
    all(1)(x);
    EXPECT_NE(dropped(x, static_cast<float>(word()) * 0x1p-32f).get(static_cast<std::int64_t>(i)), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Dropout, testing::ValuesIn(kPlaces), place_name);

}  // namespace dropout_devices_test
}  // namespace headroom::kernels
