#include <headroom/optim/clip.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace clip_test {

using test::Regression;
using test::write;

double norm_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
}

/// Fills gradients with numbers and returns them all.
std::vector<double> set_gradients(Context& context, Regression& model) {
    std::mt19937_64 random(11);
    std::normal_distribution<double> normal;
    std::vector<double> all;
    model.parameters.fill_unreached();
    for (const Parameter& parameter : model.parameters.all()) {
        if (!parameter.trained) continue;
        std::vector<double> gradient(static_cast<std::size_t>(parameter.tensor.numel()));
        for (double& x : gradient) x = static_cast<float>(normal(random));
        write(context, gradient, parameter.tensor.value()->grad);
        all.insert(all.end(), gradient.begin(), gradient.end());
    }
    return all;
}

TEST(GradientNorm, IsThatOfAllTrainedParametersTogether) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        Context context = Context::cpu({.threads = 2});
        Regression model(context, dtype);
        const std::vector<double> all = set_gradients(context, model);
        EXPECT_NEAR(gradient_norm(model.parameters), norm_of(all), norm_of(all) * 1e-14);  // summed in f64
    }
}

TEST(GradientNorm, LeavesFrozenParametersOut) {
    Context context = Context::cpu({.threads = 2});
    Regression model(context);
    model.parameters.freeze("up.weight");
    model.parameters.freeze("down.bias");
    const std::vector<double> trained = set_gradients(context, model);
    EXPECT_EQ(trained.size(), static_cast<std::size_t>(Regression::kHidden * (1 + Regression::kOut)));
    EXPECT_NEAR(gradient_norm(model.parameters), norm_of(trained), norm_of(trained) * 1e-14);
    model.parameters.zero_grad();
    model.parameters.freeze("**");
    EXPECT_EQ(gradient_norm(model.parameters), 0.0);
}

TEST(GradientNorm, ShowsWhatIsNotFinite) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    set_gradients(context, model);
    write(context, {0, 0, std::numeric_limits<double>::infinity()}, model.down_bias.value()->grad);
    EXPECT_TRUE(std::isinf(gradient_norm(model.parameters)));
    write(context, {0, std::numeric_limits<double>::quiet_NaN(), 0}, model.down_bias.value()->grad);
    EXPECT_TRUE(std::isnan(gradient_norm(model.parameters)));
}

TEST(ClipFactor, IsPytorchs) {
    EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
    EXPECT_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
    EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
    EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);
}

TEST(AccumulatorClip, BoundsTheStepAndLeavesItsDirection) {
    for (const double clip : {0.0, 0.25, 1e6}) {
        Context context = Context::cpu({.threads = 2, .seed = 3});
        Regression model(context, Dtype::f64);
        Sgd optimizer(model.parameters);
        GradientAccumulator accumulator(model.parameters, optimizer, {.clip = clip, .keep_gradients = true});
        const std::vector<double> before = model.values();
        accumulator.accumulate([&] { return model.loss(0, 64); });
        accumulator.step(1.0);
        const StepResult result = accumulator.result();
        const std::vector<double> after = model.values();
        const std::vector<double> gradients = model.gradients();
        const double factor = clip == 0.25 ? clip / (result.gradient_norm + 1e-6) : 1.0;
        ASSERT_GT(result.gradient_norm, 0.3);
        for (std::size_t i = 0; i < before.size(); ++i) {
            EXPECT_NEAR(before[i] - after[i], gradients[i] * result.multiplier * factor, 8 * 0x1p-53);
        }
    }
}

}  // namespace clip_test
}  // namespace headroom::optim
