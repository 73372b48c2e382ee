#include <headroom/optim/gradient_accumulator.hpp>

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom::optim {
namespace gradient_accumulator_test {

using test::Regression;

/// One step over the first rows of the data, cut into micro-batches.
struct OneStep {
    OneStep(Dtype dtype, const std::vector<std::int64_t>& sizes, GradientAccumulatorOptions options = {}) {
        options.keep_gradients = true;
        Context context = Context::cpu({.threads = 2, .seed = 9});
        Regression model(context, dtype);
        AdamW optimizer(model.parameters);
        GradientAccumulator accumulator(model.parameters, optimizer, options);
        std::int64_t row = 0;
        for (const std::int64_t size : sizes) {
            accumulator.accumulate([&] { return model.loss(row, size); });
            row += size;
        }
        accumulator.step(0.01);
        result = accumulator.result();
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

class AccumulatorOf : public ::testing::TestWithParam<Cut> {};

INSTANTIATE_TEST_SUITE_P(Cuts, AccumulatorOf,
                         ::testing::Values(Cut{"Even", {8, 8, 8, 8, 8, 8, 8, 8}}, Cut{"Uneven", {1, 30, 2, 17, 14}},
                                           Cut{"ShortLast", {20, 20, 20, 4}},
                                           Cut{"Single", std::vector<std::int64_t>(64, 1)}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Gradient and loss of the weighted mean over 64 rows in three classes, the last part of which is ignored.
std::pair<std::vector<double>, double> weighted_mean(const std::vector<std::int64_t>& sizes) {
    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model(context, Dtype::f64);
    Sgd optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer, {.keep_gradients = true});
    const Tensor weights = context.from_host(std::vector<double>{0.3, 5, 1}, {3});
    std::int64_t row = 0;
    for (const std::int64_t size : sizes) {
        std::vector<std::int64_t> classes;
        for (std::int64_t i = row; i < row + size; ++i) classes.push_back(i < 60 ? i * i % 3 : -100);
        accumulator.accumulate([&] {
            const Tensor x = model.rows(model.inputs, Regression::kIn, row, size);
            const Tensor logits = linear(tanh(linear(x, model.up, model.up_bias)), model.down, model.down_bias);
            return cross_entropy(logits, context.from_host(classes, {size}), {.class_weights = weights});
        });
        row += size;
    }
    accumulator.step(0.01);
    std::vector<double> gradient = model.gradients();
    for (double& x : gradient) x *= accumulator.result().multiplier;
    return {gradient, accumulator.result().loss};
}

TEST_P(AccumulatorOf, MicroBatchesHaveTheWeightedMeanOfTheBigBatch) {
    const auto [whole, loss] = weighted_mean({64});
    const auto [parts, loss_of_parts] = weighted_mean(GetParam().sizes);
    EXPECT_LE(largest_difference(parts, whole), 1e-12 * largest(whole));
    EXPECT_NEAR(loss_of_parts, loss, 1e-12 * loss);
}

TEST_P(AccumulatorOf, MicroBatchesEqualTheBigBatchInF64) {
    const OneStep whole(Dtype::f64, {64});
    const OneStep parts(Dtype::f64, GetParam().sizes);
    EXPECT_LE(largest_difference(parts.mean_gradient, whole.mean_gradient), 1e-12 * largest(whole.mean_gradient));
    EXPECT_LE(largest_difference(parts.values, whole.values), 1e-12 * largest(whole.values));
    EXPECT_NEAR(parts.result.loss, whole.result.loss, 1e-12 * whole.result.loss);
    EXPECT_NEAR(parts.result.gradient_norm, whole.result.gradient_norm, 1e-12 * whole.result.gradient_norm);
    EXPECT_EQ(parts.result.terms, 64);
}

TEST_P(AccumulatorOf, MicroBatchesEqualTheBigBatchInF32) {
    const OneStep exact(Dtype::f64, {64});
    const OneStep whole(Dtype::f32, {64});
    const OneStep parts(Dtype::f32, GetParam().sizes);
    EXPECT_LE(largest_difference(parts.mean_gradient, whole.mean_gradient), 1e-6 * largest(whole.mean_gradient));
    EXPECT_NEAR(parts.result.loss, exact.result.loss, 1e-6 * exact.result.loss);
}

TEST(GradientAccumulator, AnyLossScaleGivesTheSameBits) {
    const OneStep plain(Dtype::f32, {16, 16});
    const OneStep scaled(Dtype::f32, {16, 16}, {.scale = LossScale::dynamic()});
    EXPECT_EQ(scaled.values, plain.values);
}

class AccumulatorTest : public ::testing::Test {
  protected:
    std::vector<double> gradient_of(const Tensor& parameter) { return parameter.grad().to_vector<double>(); }

    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    Sgd optimizer{model.parameters};
};

TEST_F(AccumulatorTest, ReportsTheMeanLossPerTerm) {
    GradientAccumulator accumulator(model.parameters, optimizer);
    double sum = 0;
    for (const std::int64_t row : {0, 16, 32}) {
        accumulator.accumulate([&] {
            Loss loss = model.loss(row, 16);
            sum += loss.sum().item();
            return loss;
        });
    }
    EXPECT_EQ(accumulator.micro_batches(), 3);
    accumulator.step(0.0);
    EXPECT_DOUBLE_EQ(accumulator.result().loss, sum / 48);
    EXPECT_EQ(accumulator.result().terms, 48);
    EXPECT_EQ(accumulator.micro_batches(), 0);
}

TEST_F(AccumulatorTest, ForgetsOlderGradients) {
    GradientAccumulator accumulator(model.parameters, optimizer, {.keep_gradients = true});
    accumulator.accumulate([&] { return model.loss(0, 16); });
    accumulator.step(0.0);
    const std::vector<double> first = model.gradients();
    backward(model.loss(16, 16).mean());
    accumulator.accumulate([&] { return model.loss(0, 16); });
    accumulator.step(0.0);
    EXPECT_EQ(model.gradients(), first);
    accumulator.accumulate([&] { return model.loss(32, 16); });
    accumulator.reset();
    accumulator.accumulate([&] { return model.loss(0, 16); });
    accumulator.step(0.0);
    EXPECT_EQ(model.gradients(), first);
}

TEST_F(AccumulatorTest, ParametersThatNothingReachedStandStill) {
    GradientAccumulator accumulator(model.parameters, optimizer, {.keep_gradients = true});
    accumulator.accumulate([&] { return model.loss(0, 16); });
    accumulator.step(0.01);
    const std::vector<double> up = model.up.to_vector<double>();
    accumulator.accumulate([&] { return mse_loss(model.down, context.from_host(std::vector<float>(99), {3, 33})); });
    accumulator.step(0.01);
    const StepResult result = accumulator.result();
    EXPECT_EQ(model.up.to_vector<double>(), up);
    EXPECT_EQ(largest(gradient_of(model.up)), 0.0);
    EXPECT_GT(result.gradient_norm, 0.0);
}

TEST_F(AccumulatorTest, LocalsOfTheCallableDieBeforeBackward) {
    GradientAccumulator accumulator(model.parameters, optimizer);
    toy::Faults faults{.backward = 100};
    std::int64_t left_at_death = 0;
    accumulator.accumulate([&] {
        const std::shared_ptr<void> local(nullptr, [&](void*) { left_at_death = faults.backward; });
        const Loss loss = model.loss(0, 16);
        return Loss(toy::fragile(loss.sum(), faults), 16.0);
    });
    EXPECT_EQ(left_at_death, 100);
    EXPECT_EQ(faults.backward, 99);
}

TEST_F(AccumulatorTest, SkipsAStepWithoutTerms) {
    GradientAccumulator accumulator(model.parameters, optimizer);
    const std::vector<double> before = model.values();
    accumulator.accumulate([&] { return Loss(model.loss(0, 8).sum(), 0.0); });
    accumulator.step(0.1);
    const StepResult result = accumulator.result();
    EXPECT_TRUE(result.skipped);
    EXPECT_TRUE(result.finite);
    EXPECT_EQ(model.values(), before);
    EXPECT_EQ(optimizer.steps(), 0);
}

TEST_F(AccumulatorTest, DoesNotStepWithWhatIsNotFinite) {
    GradientAccumulator accumulator(model.parameters, optimizer, {.clip = 1.0});
    const std::vector<double> before = model.values();
    accumulator.accumulate([&] { return model.loss(0, 8); });
    model.inputs[0] = std::numeric_limits<double>::infinity();
    model.inputs[1] = -std::numeric_limits<double>::infinity();
    accumulator.accumulate([&] { return model.loss(0, 8); });
    accumulator.step(0.1);
    const StepResult result = accumulator.result();
    EXPECT_FALSE(result.finite);
    EXPECT_TRUE(result.skipped);
    EXPECT_TRUE(result.diverged);
    EXPECT_EQ(model.values(), before);
    EXPECT_EQ(optimizer.steps(), 0);
    accumulator.accumulate([&] { return model.loss(8, 8); });
    accumulator.step(0.1);
    EXPECT_TRUE(accumulator.result().finite);
}

TEST_F(AccumulatorTest, RefusesWhatItCanNotUse) {
    GradientAccumulator accumulator(model.parameters, optimizer);
    EXPECT_THROW(accumulator.step(0.1), Error);
    EXPECT_THROW(GradientAccumulator(model.parameters, optimizer, {.clip = -1}), Error);
    EXPECT_THROW(GradientAccumulator(model.parameters, optimizer, {.clip = std::nan("")}), Error);
    Regression other(context, Dtype::f32, "other");
    EXPECT_THROW(GradientAccumulator(other.parameters, optimizer), Error);
    const std::size_t allocated = context.memory().statistics().allocated;
    EXPECT_THROW(accumulator.accumulate([&] { return Loss(Tensor(), 1.0); }), ShapeError);
    EXPECT_THROW(accumulator.accumulate([&] { return Loss(toy::mul(model.up, model.up), 1.0); }), ShapeError);
    EXPECT_THROW(accumulator.accumulate([&] { return Loss(model.loss(0, 8).sum(), -1.0); }), Error);
    EXPECT_THROW(accumulator.accumulate([&] {
        NoGradGuard no_grad(context);
        return model.loss(0, 8);
    }),
                 Error);
    {
        RegionScope region(context, context.memory().intern("head"));
        EXPECT_THROW(accumulator.accumulate([&] { return model.loss(0, 8); }), Error);
    }
    EXPECT_EQ(context.memory().statistics().allocated, allocated);
    EXPECT_EQ(context.tape().size(), 0u);
    accumulator.accumulate([&] { return model.loss(0, 8); });
    EXPECT_THROW(accumulator.state_dict(), Error);
    EXPECT_THROW(accumulator.restore({{"accumulator.loss_scale", "1"}, {"accumulator.good_steps", "0"}}), Error);
    EXPECT_THROW(accumulator.step(-1.0), Error);
    EXPECT_NO_THROW(accumulator.step(0.1));
}

/// An event belongs to the step that is under way, counted from 1, however many micro-batches it has, and so does what
/// comes behind it; what comes before the first one is step 0.
TEST(GradientAccumulator, StepsOfTheHistoryAreThoseOfTheOptimizer) {
    Context context = Context::cpu({.threads = 1});
    context.memory().start_history(1 << 16);
    Regression model(context);
    AdamW optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    std::vector<std::uint32_t> expected;
    const auto mark = [&](std::uint32_t step) {  // a request that is found by its bytes
        context.exec().empty({100'003 + static_cast<std::int64_t>(expected.size())}, Dtype::u8);
        expected.push_back(step);
    };
    for (std::uint32_t step = 0; step < 3; ++step) {
        for (std::int64_t row = 0; row < step + 1; ++row) {
            mark(row == 0 ? step : step + 1);
            accumulator.accumulate([&] {
                mark(step + 1);
                return model.loss(row, 1);
            });
        }
        EXPECT_THROW(accumulator.accumulate([&]() -> Loss { throw Error("no"); }), Error);
        accumulator.reset();
        accumulator.accumulate([&] { return model.loss(0, 2); });
        mark(step + 1);
        accumulator.step(0.01);
        mark(step + 1);
    }
    std::vector<std::uint32_t> found(expected.size(), 99);
    for (const memory::MemoryEvent& event : context.memory().snapshot().events) {
        const std::size_t mark = event.requested - 100'003;
        if (event.kind == memory::MemoryEvent::Kind::allocate && mark < found.size()) found[mark] = event.step;
    }
    EXPECT_EQ(found, expected);
}

}  // namespace gradient_accumulator_test
}  // namespace headroom::optim
