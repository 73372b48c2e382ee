// Mean and variance, and the variance's gradient.
#include <cmath>
#include <limits>

#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/tests/kernels/reduced_axes.hpp>

namespace headroom::kernels {
namespace moments_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of numbers around 1000, whose digits must not be lost.
Trial moments_trial(const Variant& v, Random& random, const Shape& from, const Shape& to, double correction) {
    Trial trial;
    const Dtype wide = compute_dtype(v.dtype);
    const TestArray& x = trial.input(v, from, normal(random, 1000, 1));
    Output &mean = trial.output(wide, to, v.out), &variance = trial.output(wide, to, v.out);
    const auto destination = destinations(from, to);
    std::vector<long double> sums(static_cast<std::size_t>(to.numel())), squares(sums);
    const double n = static_cast<double>(from.numel()) / static_cast<double>(to.numel()), unit = epsilon(wide);
    const auto at = [&](std::size_t i) { return x.get(static_cast<std::int64_t>(i)); };
    for (std::size_t i = 0; i < destination.size(); ++i) sums[destination[i]] += at(i);
    for (std::size_t i = 0; i < destination.size(); ++i) {
        const long double off = at(i) - sums[destination[i]] / n;
        squares[destination[i]] += off * off;
    }
    for (std::size_t j = 0; j < sums.size(); ++j) {
        // Sums are in f64: for f32 and halves, only the results are rounded. Rounding the mean (relative error e) adds
        // (1000 e)^2 at most to the variance.
        const double additions = wide == Dtype::f64 ? n + 4 : 1,
                     value = static_cast<double>(squares[j]) / (n - correction);
        mean.expect(static_cast<double>(sums[j]) / n, 1000 * additions * unit);
        variance.expect(value, 10 * additions * unit * (4 + value) + 1e6 * unit * unit);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run<MomentsPlan>(in[0], correction, out[0], out[1]);
    };
    return trial;
}

Trial variance_backward_trial(const Variant& v, Random& random, const Shape& from, const Shape& to) {
    Trial trial;
    const Dtype wide = compute_dtype(v.dtype);
    const TestArray &x = trial.input(v, from, normal(random)), &mean = trial.input(wide, to, v.in, normal(random));
    const TestArray& dvariance = trial.input(v, to, normal(random));
    Output &dx = trial.output(v, from), &total = trial.output(wide, from, v.out, normal(random));
    const auto destination = destinations(from, to);
    const double n = static_cast<double>(from.numel()) / static_cast<double>(to.numel());
    for (std::size_t i = 0; i < destination.size(); ++i) {
        const auto j = static_cast<std::int64_t>(destination[i]);
        const double value = dvariance.get(j) * 2 / (n - 1) * (x.get(static_cast<std::int64_t>(i)) - mean.get(j));
        const double bound = 4 * epsilon(wide) * (std::abs(value) + 10);  // four operations on numbers below 10
        dx.expect(value, bound), total.expect(total.before() + value, bound);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            variance_backward(stream, in[0], in[1], in[2], 1, out[0], 0);
            variance_backward(stream, in[0], in[1], in[2], 1, out[1], 1);
        });
    };
    return trial;
}

Cases cases() {
    Cases result;
    for (const ReducedAxes& axes :
         {ReducedAxes{{5, 7}, {5, 1}}, ReducedAxes{{3, 64}, {1, 64}}, ReducedAxes{{9, 64}, {9, 1}},
          ReducedAxes{{77}, {1}}, ReducedAxes{{40, 24}, {24}}, ReducedAxes{{300, 5}, {5}}, ReducedAxes{{4133}, {1}}}) {
        result.add("variance_backward" + axes.name(), variance_backward_trial, axes.x, axes.y);
    }
    for (const ReducedAxes& axes :
         {ReducedAxes{{8, 4000}, {8, 1}}, ReducedAxes{{4000, 8}, {1, 8}}, ReducedAxes{{4, 50, 6, 10}, {1, 50, 1, 1}},
          ReducedAxes{{20005}, {1}}, ReducedAxes{{600, 3}, {3}}, ReducedAxes{{3, 1025}, {3, 1}}}) {
        result.add("moments" + axes.name(), moments_trial, axes.x, axes.y, 0).only(kFloating);
        result.add("sample_moments" + axes.name(), moments_trial, axes.x, axes.y, 1).only(kFloating);
    }
    return result;
}

const bool rows = add_rows("MomentsRows", cases());

using Moments = DeviceTest;

/// Variances of two lines, and their gradients if that of each variance is 1.
struct Edge {
    Shape x;
    double correction;
    std::vector<double> variance, gradient;
};

/// As torch.var has it; the gradient where n < correction as well, which PyTorch divides by a negative number.
TEST_P(Moments, OfTooFewElementsAreInfiniteOrNan) {
    const std::vector<double> some{1, 2, 3, 5, 5, 5}, inf{kInfinity, kNan}, nan{kNan, kNan};
    const std::vector<double> slopes{-kInfinity, kNan, kInfinity, kNan, kNan, kNan};
    for (const Edge& edge : {Edge{{2, 3}, 3, inf, slopes}, Edge{{2, 3}, 5, inf, slopes}, Edge{{2, 1}, 1, nan, nan},
                             Edge{{2, 0}, 1, nan, {}}, Edge{{2, 0}, 0, nan, {}}}) {
        for (const Dtype dtype : kFloating) {
            SCOPED_TRACE(to_name(edge.x) + " - " + std::to_string(edge.correction) + " " + std::string(name(dtype)));
            const Dtype wide = compute_dtype(dtype);
            TestArray x(dtype, edge.x), mean(wide, {2, 1}), variance(wide, {2, 1}), ones(dtype, {2, 1}),
                dx(dtype, edge.x);
            for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, some[static_cast<std::size_t>(i)]);
            all(1)(ones);
            const View in = device().put(x), m = device().put(mean), v = device().put(variance), out = device().put(dx);
            const View dv = device().put(ones);
            device().run<MomentsPlan>(in, edge.correction, m, v);
            device().run([&](auto& stream) { variance_backward(stream, in, m, dv, edge.correction, out, 0); });
            device().get(v, variance), device().get(out, dx);
            const auto expect = [](const TestArray& array, const std::vector<double>& expected) {
                for (std::int64_t i = 0; i < array.numel(); ++i) {
                    const double value = expected[static_cast<std::size_t>(i)];
                    if (std::isnan(value)) {
                        EXPECT_TRUE(std::isnan(array.get(i))) << array.get(i);
                    } else {
                        EXPECT_EQ(array.get(i), value);
                    }
                }
            };
            expect(variance, edge.variance), expect(dx, edge.gradient);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Moments, testing::ValuesIn(kPlaces), place_name);

TEST(MomentsScratch, IsNoneOnTheCpu) {
    const Stream cpu = CpuStream{};
    const View x = contiguous_view(nullptr, Dtype::f32, {1030, 40}), y = contiguous_view(nullptr, Dtype::f32, {40});
    EXPECT_EQ(MomentsPlan(cpu, x, 1, y, y).scratch(), 0u);
}

}  // namespace moments_devices_test
}  // namespace headroom::kernels
