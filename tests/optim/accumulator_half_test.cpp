#include <cmath>

#include <gtest/gtest.h>

#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace accumulator_half_test {

using test::Regression;

class AccumulatorInHalf : public ::testing::Test {
  protected:
    /// A micro-batch whose matrix products are f16; its loss is multiplied by `factor`.
    Loss micro_batch(std::int64_t row, double factor = 1.0) {
        Autocast autocast(context, Dtype::f16);
        return {model.loss(row, 16).sum() * factor, 16.0};
    }

    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    AdamW optimizer{model.parameters};
};

TEST_F(AccumulatorInHalf, SkipsStepsUntilTheScaleNoLongerOverflows) {
    GradientAccumulator accumulator(
        model.parameters, optimizer,
        {.scale = LossScale::dynamic({.initial = 0x1p30, .interval = 4, .maximum = 0x1p40})});
    const std::vector<double> before = model.values();
    int skipped = 0;
    double scale = 0x1p30;
    while (skipped < 40) {
        accumulator.accumulate([&] { return micro_batch(0); });
        accumulator.step(0.01);
        const StepResult result = accumulator.result();
        if (result.finite) break;
        EXPECT_TRUE(result.skipped);
        EXPECT_FALSE(result.diverged);
        EXPECT_TRUE(std::isfinite(result.loss));
        EXPECT_EQ(model.values(), before);
        EXPECT_EQ(optimizer.steps(), 0);
        scale /= 2;
        EXPECT_EQ(accumulator.loss_scale().value(), scale);
        ++skipped;
    }
    EXPECT_GT(skipped, 3);
    EXPECT_LT(skipped, 30);
    EXPECT_EQ(optimizer.steps(), 1);
    EXPECT_NE(model.values(), before);
    for (int i = 0; i < 3; ++i) {
        accumulator.accumulate([&] { return micro_batch(16); });
        accumulator.step(0.01);
    }
    EXPECT_EQ(accumulator.loss_scale().value(), 2 * scale);  // four good steps
}

TEST_F(AccumulatorInHalf, KeepsGradientsThatWouldUnderflow) {
    // Of a loss that is 1e-9 times as large, the gradients of activations are below f16's smallest number, 6e-8.
    const auto largest_gradient = [&](const LossScale& scale, double factor) {
        GradientAccumulator accumulator(model.parameters, optimizer, {.scale = scale, .keep_gradients = true});
        accumulator.accumulate([&] { return micro_batch(0, factor); });
        accumulator.step(0.0);
        const StepResult result = accumulator.result();
        double most = 0;
        for (const double x : model.up.grad().to_vector<double>())
            most = std::max(most, std::abs(x * result.multiplier));
        return most;
    };
    const double plain = largest_gradient({}, 1.0);
    EXPECT_GT(plain, 1e-3);
    EXPECT_EQ(largest_gradient({}, 1e-9), 0.0);
    const double scaled = largest_gradient(LossScale::dynamic({.initial = 0x1p30, .maximum = 0x1p30}), 1e-9);
    EXPECT_NEAR(scaled / 1e-9, plain, plain * 8 * 0x1p-11);  // some roundings to f16 apart
}

TEST_F(AccumulatorInHalf, DivergesWhereNoScaleHelps) {
    GradientAccumulator accumulator(model.parameters, optimizer,
                                    {.scale = LossScale::dynamic({.initial = 4, .minimum = 1})});
    model.inputs[0] = std::nan("");
    std::vector<bool> diverged;
    for (int i = 0; i < 4; ++i) {
        accumulator.accumulate([&] { return micro_batch(0); });
        accumulator.step(0.01);
        diverged.push_back(accumulator.result().diverged);
    }
    EXPECT_EQ(diverged, (std::vector<bool>{false, false, true, true}));
}

}  // namespace accumulator_half_test
}  // namespace headroom::optim
