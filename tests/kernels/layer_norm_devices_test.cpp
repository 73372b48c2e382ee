// layer_norm and rms_norm, which have their kernels in common: rms_norm subtracts no mean and adds no beta.
#include <headroom/kernels/layer_norm/layer_norm.hpp>

#include <algorithm>
#include <cmath>

#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace layer_norm_devices_test {

using namespace test;

constexpr double kEpsilon = 1e-5;

enum class Kind { layer, rms };

/// in: x, gamma, beta; out: y, rstd, mean. Without `affine` neither gamma nor beta is given.
void forward(Device& device, Kind kind, bool affine, const Views& in, const Views& out) {
    const View *gamma = affine ? &in[1] : nullptr, *beta = affine ? &in[2] : nullptr;
    device.run([&](auto& stream) {
        if (kind == Kind::rms) return rms_norm(stream, in[0], gamma, kEpsilon, out[0], out[1]);
        layer_norm(stream, in[0], gamma, beta, kEpsilon, out[0], out[2], out[1]);
    });
}

/// in: x, dy, gamma, rstd, mean.
void backward(Device& device, Kind kind, bool affine, const Views& in, const LayerNormGradients& to) {
    const View* gamma = affine ? &in[2] : nullptr;
    if (kind == Kind::layer) return device.run<LayerNormGradientPlan>(in[0], in[1], gamma, in[4], in[3], to);
    device.run<RmsNormGradientPlan>(in[0], in[1], gamma, in[3], RmsNormGradients{to.x, to.gamma});
}

/// Of one row, by definition.
struct Statistics {
    Statistics(Kind kind, const TestArray& x, std::int64_t row, std::int64_t length) {
        long double sum = 0, squares = 0;  // of thousands of elements, also in f64
        for (std::int64_t i = row * length; i < (row + 1) * length; ++i) sum += x.get(i);
        if (kind == Kind::layer) mean = static_cast<double>(sum / length);
        for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
            squares += std::pow(x.get(i) - mean, 2);
            magnitude = std::max(magnitude, std::abs(x.get(i)));
        }
        rstd = 1 / std::sqrt(static_cast<double>(squares / length) + kEpsilon);
    }
    double mean = 0, rstd = 0, magnitude = 0;
};

constexpr Dtype kSame = Dtype::boolean;  // as x

/// `parameters`: dtype of gamma and beta; `result`: that of y.
Trial forward_trial(const Variant& v, Random& random, const Shape& shape, Kind kind, bool affine, Dtype parameters,
                    Dtype result) {
    Trial trial;
    const std::int64_t length = shape.back(), rows = shape.numel() / length;
    const Dtype wide = compute_dtype(v.dtype), dtype = parameters == kSame ? v.dtype : parameters;
    const TestArray& x = trial.input(v, shape, normal(random, 2, 3));
    const TestArray& gamma = trial.input(dtype, {length}, v.in, normal(random, 1, 0.5));
    const TestArray& beta = trial.input(dtype, {length}, v.in, normal(random));
    Output& y = trial.output(result == kSame ? v.dtype : result, shape, v.out);
    Output& rstds = trial.output(wide, {rows}, Layout::contiguous);
    if (kind == Kind::layer) trial.output(wide, {rows}, Layout::contiguous);
    if (result == kSame) y.over = 0;
    const double unit = epsilon(wide);
    for (std::int64_t row = 0; row < rows; ++row) {
        const Statistics s(kind, x, row, length);
        const double spread = kind == Kind::layer ? s.magnitude * s.rstd : 0;
        if (kind == Kind::layer) trial.out[2].expect(s.mean, 32 * unit * s.magnitude);
        rstds.expect(s.rstd, 64 * unit * s.rstd * (1 + spread));
        for (std::int64_t i = 0; i < length; ++i) {
            const double g = affine ? gamma.get(i) : 1, b = affine && kind == Kind::layer ? beta.get(i) : 0;
            const double h = (x.get(row * length + i) - s.mean) * s.rstd;
            y.expect(h * g + b, unit * (64 * (spread + 1) * (1 + std::abs(h)) * std::abs(g) + std::abs(b)));
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) { forward(device, kind, affine, in, out); };
    return trial;
}

/// dx, and dx added to what is there; dgamma added to what is there in f32, dbeta. `result`: dtype of dy.
Trial backward_trial(const Variant& v, Random& random, const Shape& shape, Kind kind, bool affine, Dtype result) {
    Trial trial;
    const std::int64_t length = shape.back(), rows = shape.numel() / length;
    const TestArray& x = trial.input(v, shape, normal(random, 2, 3));
    const TestArray& dy = trial.input(result == kSame ? v.dtype : result, shape, v.in, normal(random));
    const TestArray& gamma = trial.input(v, {length}, normal(random, 1, 0.5));
    const TestArray& rstd = trial.input(compute_dtype(v.dtype), {rows}, Layout::contiguous, [&](TestArray& y) {
        for (std::int64_t i = 0; i < rows; ++i) y.set(i, Statistics(kind, x, i, length).rstd);
    });
    const TestArray& mean = trial.input(compute_dtype(v.dtype), {rows}, Layout::contiguous, [&](TestArray& y) {
        for (std::int64_t i = 0; i < rows; ++i) y.set(i, Statistics(kind, x, i, length).mean);
    });
    Output &dx = trial.output(v, shape), &sum = trial.output(Dtype::f32, shape, v.out, all(3));
    Output& dgamma = trial.output(Dtype::f32, {length}, v.out, all(2));
    Output& dbeta = trial.output(v, {length});
    if (result == kSame) dx.over = 1;
    const double unit = epsilon(compute_dtype(v.dtype)), n = static_cast<double>(length);
    std::vector<double> gammas(static_cast<std::size_t>(length)), betas(gammas);
    double spread = 1;
    for (std::int64_t row = 0; row < rows; ++row) {
        const double r = rstd.get(row), m = mean.get(row);
        double g_mean = 0, gh_mean = 0;
        const auto at = [&](std::int64_t i) {
            const double up = dy.get(row * length + i);
            return std::tuple{up, up * (affine ? gamma.get(i) : 1), (x.get(row * length + i) - m) * r};
        };
        for (std::int64_t i = 0; i < length; ++i) {
            const auto [up, g, h] = at(i);
            g_mean += kind == Kind::layer ? g / n : 0, gh_mean += g * h / n;
            gammas[static_cast<std::size_t>(i)] += up * h, betas[static_cast<std::size_t>(i)] += up;
        }
        // Inputs around 5 make h uncertain by 5 * rstd units; everything else is around 1.
        spread += 4 * (1 + 5 * r);
        for (std::int64_t i = 0; i < length; ++i) {
            const auto [up, g, h] = at(i);
            const double value = r * (g - g_mean - h * gh_mean),
                         bound = 256 * unit * r * (1 + 5 * r) * (4 + std::abs(value));
            dx.expect(value, bound), sum.expect(3 + value, bound);
        }
    }
    for (std::size_t i = 0; i < gammas.size(); ++i) {
        dgamma.expect(2 + gammas[i], 64 * unit * spread);
        dbeta.expect(betas[i], 64 * unit * spread);
    }
    if (kind == Kind::rms) trial.out.pop_back();
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        backward(device, kind, affine, in, {.x = {&out[1], 1}});
        backward(device, kind, affine, in,
                 {.x = out.data(), .gamma = {&out[2], 1}, .beta = kind == Kind::layer ? &out[3] : nullptr});
    };
    return trial;
}

Cases cases(Kind kind) {
    static constexpr Dtype kHalf[] = {Dtype::bf16}, kHalves[] = {Dtype::bf16, Dtype::f16};
    Cases result;
    // A lane, vectors and tails of rows that begin aligned or not, several warps, chunks of several rows and teams.
    for (const Shape& shape : {Shape{3, 1}, Shape{3, 5}, Shape{2, 2, 64}, Shape{5, 31}, Shape{9, 33}, Shape{150, 72},
                               Shape{3, 1025}, Shape{21, 1032}, Shape{7}, Shape{0, 4}}) {
        const std::span<const Layouts> layouts = layouts_for(shape);
        result.add("forward/" + to_name(shape), forward_trial, shape, kind, true, kSame, kSame)
            .only(kFloating, layouts);
        result.add("backward/" + to_name(shape), backward_trial, shape, kind, true, kSame).only(kFloating, layouts);
    }
    for (const Shape& shape : {Shape{5, 31}, Shape{9, 64}, Shape{2, 1025}}) {
        result.add("forward/no_parameters/" + to_name(shape), forward_trial, shape, kind, false, kSame, kSame);
        result.add("backward/no_parameters/" + to_name(shape), backward_trial, shape, kind, false, kSame);
    }
    // Rows that a GPU's registers do not hold.
    result.add("forward/2x10244", forward_trial, Shape{2, 10244}, kind, true, kSame, kSame).only(kWide);
    result.add("forward/2x20488", forward_trial, Shape{2, 20488}, kind, true, kSame, kSame).only(kHalf);
    for (const Shape& shape : {Shape{2, 8192}, Shape{2, 8200}}) {
        Case& row = result.add("backward/" + to_name(shape), backward_trial, shape, kind, true, kSame).only(kHalves);
        row.large_blocks = shape[1] == 8192;
    }
    for (const Dtype parameters : kFloating) {
        result
            .add("forward/parameters_in_" + std::string(name(parameters)), forward_trial, Shape{3, 72}, kind, true,
                 parameters, kSame)
            .only(kHalf);
    }
    // Halves for the products behind, and their gradients.
    const auto halves = [&](Dtype half, const Shape& shape) {
        const std::string to = "/to_" + std::string(name(half)) + "/" + to_name(shape);
        const std::span<const Layouts> layouts = layouts_for(shape);
        result.add("forward" + to, forward_trial, shape, kind, true, kSame, half).only(kF32, layouts);
        result.add("backward" + to, backward_trial, shape, kind, true, half).only(kF32, layouts);
    };
    for (const Shape& shape : {Shape{2, 2, 64}, Shape{9, 33}, Shape{150, 72}, Shape{21, 1032}})
        halves(Dtype::bf16, shape);
    halves(Dtype::f16, {150, 72});
    result.add("backward/from_f32/150x72", backward_trial, Shape{150, 72}, kind, true, Dtype::f32).only(kHalf);
    // More rows than the most chunks have; enough for several threads.
    for (const Shape& shape : {Shape{264 * 16 + 77, 16}, Shape{264 * 16 + 77, 15}}) {
        result.add("backward/" + to_name(shape), backward_trial, shape, kind, true, kSame).only(kF32).large = true;
    }
    result.add("threads/768x128", backward_trial, Shape{768, 128}, kind, true, kSame).only(kF32).only_on(kPlaces[0]);
    result.add("backward/1321x1536", backward_trial, Shape{264 * 5 + 1, 1536}, kind, true, kSame).only(kHalf).large =
        true;
    return result;
}

const bool rows = add_rows("LayerNormRows", cases(Kind::layer)) && add_rows("RmsNormRows", cases(Kind::rms));

using LayerNorm = DeviceTest;

TEST_P(LayerNorm, KeepsItsDigitsWhenTheMeanIsLarge) {
    for (const std::int64_t length : {511, 512}) {
        TestArray x(Dtype::f32, {1, length}), rstd(Dtype::f32, {1});
        x.fill(random, 10000, 1);
        const View in = device().put(x), y = device().put(x), mean = device().put(rstd), out = device().put(rstd);
        forward(device(), Kind::layer, false, {in, in, in}, {y, out, mean});
        device().get(out, rstd);
        // The rounded mean is off by 10000 epsilon at most: its square is what the variance gets wrong.
        EXPECT_NEAR(rstd.get(0) / Statistics(Kind::layer, x, 0, length).rstd, 1, 64 * epsilon(Dtype::f32) + 1e-5);
    }
}

/// As PyTorch's layer and group norm: zeros would hide that a training has diverged.
TEST_P(LayerNorm, OfARowWhoseVarianceOverflowsIsNan) {
    for (const Kind kind : {Kind::layer, Kind::rms}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            for (const std::int64_t length : {7, 512, 2999}) {
                TestArray x(dtype, {2, length}), of_row(Dtype::f32, {2});
                x.fill(random);
                for (std::int64_t i = 0; i < length; ++i) x.set(length + i, i % 2 == 0 ? 1e20 : -1e20);
                const View in = device().put(x), y = device().put(x), mean = device().put(of_row),
                           rstd = device().put(of_row);
                forward(device(), kind, false, {in, in, in}, {y, rstd, mean});
                device().get(y, x);
                EXPECT_TRUE(std::isfinite(x.get(0)) && std::isnan(x.get(length)) && std::isnan(x.get(2 * length - 1)))
                    << name(dtype) << " " << length;
            }
        }
    }
}

TEST_P(LayerNorm, OfEqualNumbersIsBetaToTheBit) {
    for (const Dtype dtype : kWide) {
        for (const std::int64_t length : {1, 3, 10, 31, 100, 511, 768, 1000, 1025, 2999, 10244}) {
            TestArray x(dtype, {3, length}), y(dtype, {3, length}), of_row(dtype, {3}), beta(dtype, {length});
            for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, (i / length - 1.1) * 997 / 3);
            beta.fill(random);
            const View in = device().put(x), to = device().put(y), mean = device().put(of_row),
                       rstd = device().put(of_row), of_beta = device().put(beta), dgamma = device().put(beta);
            forward(device(), Kind::layer, true, {in, of_beta, of_beta}, {to, rstd, mean});
            backward(device(), Kind::layer, false, {in, in, in, rstd, mean}, {.gamma = {&dgamma}});
            device().get(to, y), device().get(mean, of_row);
            TestArray of_gamma(dtype, {length});
            device().get(dgamma, of_gamma);
            for (std::int64_t i = 0; i < x.numel(); ++i) {
                ASSERT_EQ(of_row.get(i / length), x.get(i)) << name(dtype) << " " << length;
                ASSERT_EQ(y.get(i), beta.get(i % length));
                ASSERT_EQ(of_gamma.get(i % length), 0);
            }
        }
    }
}

TEST_P(LayerNorm, GradientHasTheSameBitsWhateverIsAskedFor) {
    for (const Dtype dtype : kWide) {
        const Shape shape{34, 1504}, last{1504}, first{34};
        TestArray x(dtype, shape), gamma(dtype, last), rstd(dtype, first), dx(dtype, shape), sum(dtype, last);
        x.fill(random), gamma.fill(random), rstd.fill(random, 1, 0.1);
        const View number = device().put(rstd);
        const Views in{device().put(x), device().put(x), device().put(gamma), number, number};
        const auto ask = [&](bool for_x, bool for_gamma, bool for_beta) {
            const View to_x = device().put(dx), to_gamma = device().put(sum), to_beta = device().put(sum);
            backward(device(), Kind::layer, true, in,
                     {.x = for_x ? &to_x : nullptr,
                      .gamma = for_gamma ? &to_gamma : nullptr,
                      .beta = for_beta ? &to_beta : nullptr});
            std::vector<TestArray> results{dx, sum, sum};
            device().get(to_x, results[0]), device().get(to_gamma, results[1]), device().get(to_beta, results[2]);
            return results;
        };
        const auto together = ask(true, true, true);
        EXPECT_EQ(ask(true, false, false)[0].memory(), together[0].memory());
        EXPECT_EQ(ask(false, true, false)[1].memory(), together[1].memory());
        EXPECT_EQ(ask(false, false, true)[2].memory(), together[2].memory());
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, LayerNorm, testing::ValuesIn(kPlaces), place_name);

TEST(LayerNormScratch, IsTwoSumsForEachChunkOfRows) {
    Stream cuda = DryStream{.capability = 90};
    const View x = contiguous_view(nullptr, Dtype::bf16, {4096, 768});
    EXPECT_EQ(LayerNormGradientPlan(cuda, x, x, nullptr, {}, {}, {}).scratch(), 2u * 264 * 768 * 4);
}

}  // namespace layer_norm_devices_test
}  // namespace headroom::kernels
