#include <headroom/optim/window.hpp>

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom {
namespace {

using test::Regression;

/// One step over the first rows of the data, cut into micro-batches.
struct OneStep {
    OneStep(Dtype dtype, const std::vector<std::int64_t>& sizes, const WindowOptions& options = {}) {
        Context context = Context::cpu({.threads = 2, .seed = 9});
        Regression model(context, dtype);
        AdamW optimizer(model.parameters);
        Window window(model.parameters, optimizer, options);
        std::int64_t row = 0;
        for (const std::int64_t size : sizes) {
            window.accumulate([&] { return model.micro_batch(row, size); });
            row += size;
        }
        window.step(0.01);
        result = window.result();
        mean_gradient = model.gradients();
        for (double& x : mean_gradient) x *= result.multiplier;
        values = model.values();
    }
    StepResult result;
    std::vector<double> mean_gradient, values;
};

double largest(const std::vector<double>& values) {
    double most = 0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
}

double largest_difference(std::vector<double> a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
    return largest(a);
}

struct Cut {
    const char* name;
    std::vector<std::int64_t> sizes;  ///< of 64 rows
};

class WindowOf : public ::testing::TestWithParam<Cut> {};

INSTANTIATE_TEST_SUITE_P(Cuts, WindowOf,
                         ::testing::Values(Cut{"Even", {8, 8, 8, 8, 8, 8, 8, 8}}, Cut{"Uneven", {1, 30, 2, 17, 14}},
                                           Cut{"ShortLast", {20, 20, 20, 4}},
                                           Cut{"Single", std::vector<std::int64_t>(64, 1)}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(WindowOf, MicroBatchesEqualTheBigBatchInF64) {
    const OneStep whole(Dtype::f64, {64});
    const OneStep parts(Dtype::f64, GetParam().sizes);
    EXPECT_LE(largest_difference(parts.mean_gradient, whole.mean_gradient), 1e-12 * largest(whole.mean_gradient));
    EXPECT_LE(largest_difference(parts.values, whole.values), 1e-12 * largest(whole.values));
    EXPECT_NEAR(parts.result.loss, whole.result.loss, 1e-12 * whole.result.loss);
    EXPECT_NEAR(parts.result.gradient_norm, whole.result.gradient_norm, 1e-12 * whole.result.gradient_norm);
    EXPECT_EQ(parts.result.terms, 64);
}

TEST_P(WindowOf, MicroBatchesEqualTheBigBatchInF32) {
    const OneStep exact(Dtype::f64, {64});
    const OneStep whole(Dtype::f32, {64});
    const OneStep parts(Dtype::f32, GetParam().sizes);
    EXPECT_LE(largest_difference(parts.mean_gradient, whole.mean_gradient), 1e-6 * largest(whole.mean_gradient));
    EXPECT_NEAR(parts.result.loss, exact.result.loss, 1e-6 * exact.result.loss);
}

TEST(Window, AnyNumberOfExpectedTermsAndAnyLossScaleGiveTheSameBits) {
    const OneStep plain(Dtype::f32, {16, 16});
    for (const double expected : {1.0, 32.0, 48.0, 1e6}) {
        const OneStep other(Dtype::f32, {16, 16}, {.expected_terms = expected});
        EXPECT_EQ(other.mean_gradient, plain.mean_gradient) << expected;
        EXPECT_EQ(other.values, plain.values) << expected;
    }
    const OneStep scaled(Dtype::f32, {16, 16}, {.scale = LossScale::dynamic()});
    EXPECT_EQ(scaled.values, plain.values);
}

class WindowTest : public ::testing::Test {
  protected:
    std::vector<double> gradient_of(const Tensor& parameter) { return parameter.grad().to_vector<double>(); }

    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    Sgd optimizer{model.parameters};
};

TEST_F(WindowTest, ReportsTheMeanLossPerTerm) {
    Window window(model.parameters, optimizer);
    double sum = 0;
    for (const std::int64_t row : {0, 16, 32}) {
        window.accumulate([&] {
            MicroBatch batch = model.micro_batch(row, 16);
            sum += batch.loss_sum.item();
            return batch;
        });
    }
    EXPECT_EQ(window.terms(), 48);
    EXPECT_EQ(window.micro_batches(), 3);
    window.step(0.0);
    EXPECT_DOUBLE_EQ(window.result().loss, sum / 48);
    EXPECT_EQ(window.terms(), 0);
    EXPECT_EQ(window.micro_batches(), 0);
}

TEST_F(WindowTest, ForgetsOlderGradients) {
    Window window(model.parameters, optimizer);
    window.accumulate([&] { return model.micro_batch(0, 16); });
    window.step(0.0);
    const std::vector<double> first = model.gradients();
    backward(model.micro_batch(16, 16).loss_sum);
    window.accumulate([&] { return model.micro_batch(0, 16); });
    window.step(0.0);
    EXPECT_EQ(model.gradients(), first);
    window.accumulate([&] { return model.micro_batch(32, 16); });
    window.reset();
    window.accumulate([&] { return model.micro_batch(0, 16); });
    window.step(0.0);
    EXPECT_EQ(model.gradients(), first);
}

TEST_F(WindowTest, ParametersThatNothingReachedStandStill) {
    Window window(model.parameters, optimizer);
    window.accumulate([&] { return model.micro_batch(0, 16); });
    window.step(0.01);
    const std::vector<double> up = model.up.to_vector<double>();
    window.accumulate([&] {
        return MicroBatch{mse(model.down, context.from_host(std::vector<float>(99), {3, 33})), 1.0};
    });
    window.step(0.01);
    const StepResult result = window.result();
    EXPECT_EQ(model.up.to_vector<double>(), up);
    EXPECT_EQ(largest(gradient_of(model.up)), 0.0);
    EXPECT_GT(result.gradient_norm, 0.0);
}

TEST_F(WindowTest, LocalsOfTheCallableDieBeforeBackward) {
    Window window(model.parameters, optimizer);
    toy::Faults faults{.backward = 100};
    std::int64_t left_at_death = 0;
    window.accumulate([&] {
        const std::shared_ptr<void> local(nullptr, [&](void*) { left_at_death = faults.backward; });
        MicroBatch batch = model.micro_batch(0, 16);
        batch.loss_sum = toy::fragile(batch.loss_sum, faults);
        return batch;
    });
    EXPECT_EQ(left_at_death, 100);
    EXPECT_EQ(faults.backward, 99);
}

TEST_F(WindowTest, SkipsAWindowWithoutTerms) {
    Window window(model.parameters, optimizer);
    const std::vector<double> before = model.values();
    window.accumulate([&] { return MicroBatch{model.micro_batch(0, 8).loss_sum, 0.0}; });
    window.step(0.1);
    const StepResult result = window.result();
    EXPECT_TRUE(result.skipped);
    EXPECT_TRUE(result.finite);
    EXPECT_EQ(model.values(), before);
    EXPECT_EQ(optimizer.steps(), 0);
}

TEST_F(WindowTest, DoesNotStepWithWhatIsNotFinite) {
    Window window(model.parameters, optimizer, {.clip = 1.0});
    const std::vector<double> before = model.values();
    window.accumulate([&] { return model.micro_batch(0, 8); });
    model.inputs[0] = std::numeric_limits<double>::infinity();
    model.inputs[1] = -std::numeric_limits<double>::infinity();
    window.accumulate([&] { return model.micro_batch(0, 8); });
    window.step(0.1);
    const StepResult result = window.result();
    EXPECT_FALSE(result.finite);
    EXPECT_TRUE(result.skipped);
    EXPECT_TRUE(result.diverged);
    EXPECT_EQ(model.values(), before);
    EXPECT_EQ(optimizer.steps(), 0);
    window.accumulate([&] { return model.micro_batch(8, 8); });
    window.step(0.1);
    EXPECT_TRUE(window.result().finite);
}

TEST_F(WindowTest, RefusesWhatItCanNotUse) {
    Window window(model.parameters, optimizer);
    EXPECT_THROW(window.step(0.1), Error);
    EXPECT_THROW(Window(model.parameters, optimizer, {.clip = -1}), Error);
    EXPECT_THROW(Window(model.parameters, optimizer, {.expected_terms = std::nan("")}), Error);
    Regression other(context);
    EXPECT_THROW(Window(other.parameters, optimizer), Error);
    const std::size_t allocated = context.memory().statistics().allocated;
    EXPECT_THROW(window.accumulate([&] { return MicroBatch{}; }), ShapeError);
    EXPECT_THROW(window.accumulate([&] { return MicroBatch{toy::mul(model.up, model.up), 1.0}; }), ShapeError);
    EXPECT_THROW(window.accumulate([&] { return MicroBatch{model.micro_batch(0, 8).loss_sum, -1.0}; }), Error);
    EXPECT_THROW(window.accumulate([&] {
        NoGrad no_grad(context);
        return model.micro_batch(0, 8);
    }),
                 Error);
    {
        RegionScope region(context, context.memory().intern("head"));
        EXPECT_THROW(window.accumulate([&] { return model.micro_batch(0, 8); }), Error);
    }
    EXPECT_EQ(context.memory().statistics().allocated, allocated);
    EXPECT_EQ(context.tape().size(), 0u);
    window.accumulate([&] { return model.micro_batch(0, 8); });
    EXPECT_THROW(window.set_loss_scale({1.0, 0}), Error);
    EXPECT_THROW(window.step(-1.0), Error);
    EXPECT_NO_THROW(window.step(0.1));
}

}  // namespace
}  // namespace headroom
