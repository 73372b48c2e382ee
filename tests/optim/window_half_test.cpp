#include <cmath>

#include <gtest/gtest.h>

#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/optim/window.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom {
namespace {

using test::Regression;

class WindowInHalf : public ::testing::Test {
  protected:
    /// A micro-batch whose matrix products are f16; its loss is multiplied by `factor`, its terms too.
    MicroBatch micro_batch(std::int64_t row, double factor = 1.0) {
        Autocast autocast(context, Dtype::f16);
        MicroBatch batch = model.micro_batch(row, 16);
        return {batch.loss_sum * factor, batch.terms};
    }

    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    AdamW optimizer{model.parameters};
};

TEST_F(WindowInHalf, SkipsStepsUntilTheScaleNoLongerOverflows) {
    Window window(model.parameters, optimizer,
                  {.scale = LossScale::dynamic({.initial = 0x1p30, .interval = 4, .maximum = 0x1p40})});
    const std::vector<double> before = model.values();
    int skipped = 0;
    double scale = 0x1p30;
    while (skipped < 40) {
        window.accumulate([&] { return micro_batch(0); });
        window.step(0.01);
        const StepResult result = window.result();
        if (result.finite) break;
        EXPECT_TRUE(result.skipped);
        EXPECT_FALSE(result.diverged);
        EXPECT_TRUE(std::isfinite(result.loss));
        EXPECT_EQ(model.values(), before);
        EXPECT_EQ(optimizer.steps(), 0);
        scale /= 2;
        EXPECT_EQ(window.loss_scale().value(), scale);
        ++skipped;
    }
    EXPECT_GT(skipped, 3);
    EXPECT_LT(skipped, 30);
    EXPECT_EQ(optimizer.steps(), 1);
    EXPECT_NE(model.values(), before);
    for (int i = 0; i < 3; ++i) {
        window.accumulate([&] { return micro_batch(16); });
        window.step(0.01);
    }
    EXPECT_EQ(window.loss_scale().value(), 2 * scale);  // four good steps
}

TEST_F(WindowInHalf, KeepsGradientsThatWouldUnderflow) {
    // Of a loss that is 1e-9 times as large, the gradients of activations are below f16's smallest number, 6e-8.
    const auto largest_gradient = [&](const LossScale& scale, double factor) {
        Window window(model.parameters, optimizer, {.scale = scale});
        window.accumulate([&] { return micro_batch(0, factor); });
        window.step(0.0);
        const StepResult result = window.result();
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

TEST_F(WindowInHalf, DivergesWhereNoScaleHelps) {
    Window window(model.parameters, optimizer, {.scale = LossScale::dynamic({.initial = 4, .minimum = 1})});
    model.inputs[0] = std::nan("");
    std::vector<bool> diverged;
    for (int i = 0; i < 4; ++i) {
        window.accumulate([&] { return micro_batch(0); });
        window.step(0.01);
        diverged.push_back(window.result().diverged);
    }
    EXPECT_EQ(diverged, (std::vector<bool>{false, false, true, true}));
}

}  // namespace
}  // namespace headroom
