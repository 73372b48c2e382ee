#include <gtest/gtest.h>

#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace accumulator_memory_test {

using test::Regression;

/// Statistics after some steps of `count` equal micro-batches each.
MemoryStatistics train(Context context, int count, Dtype dtype = Dtype::f32) {
    Regression model(context, dtype);
    AdamW optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer, {.clip = 1.0});
    for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < count; ++i) {
            accumulator.accumulate([&] { return model.loss(8 * i, 8); });
        }
        accumulator.step(0.01);
    }
    return context.memory().statistics();
}

const ContextOptions kOptions{.threads = 2, .seed = 1};

TEST(AccumulatorMemory, EightMicroBatchesPeakAtWhatTwoDo) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        const MemoryStatistics one = train(Context::cpu(kOptions), 1, dtype);
        const MemoryStatistics two = train(Context::cpu(kOptions), 2, dtype);
        const MemoryStatistics eight = train(Context::cpu(kOptions), 8, dtype);
        EXPECT_EQ(eight.peak_allocated, two.peak_allocated);
        EXPECT_EQ(eight.peak_reserved, two.peak_reserved);
        EXPECT_EQ(eight.at_peak_by_category, two.at_peak_by_category);
        EXPECT_LT(one.peak_allocated, two.peak_allocated);
    }
}

TEST(AccumulatorMemory, ADryRunPeaksAsTheRealOne) {
    const Profile profile = Context::cpu(kOptions).profile();
    for (const int count : {1, 3, 8}) {
        const MemoryStatistics real = train(Context::cpu(kOptions), count);
        const MemoryStatistics dry = train(Context::dry(profile), count);
        EXPECT_EQ(dry.peak_allocated, real.peak_allocated);
        EXPECT_EQ(dry.peak_reserved, real.peak_reserved);
        EXPECT_EQ(dry.allocations, real.allocations);
    }
}

TEST(AccumulatorMemory, WhatIsFrozenCostsNeitherGradientsNorMoments) {
    const auto peak = [](const char* frozen, Category category) {
        Context context = Context::cpu(kOptions);
        Regression model(context);
        if (*frozen) model.parameters.freeze(frozen);
        AdamW optimizer(model.parameters);
        GradientAccumulator accumulator(model.parameters, optimizer, {.keep_gradients = true});
        accumulator.accumulate([&] { return model.loss(0, 8); });
        accumulator.step(0.01);
        return context.memory().statistics().allocated_by_category[static_cast<std::size_t>(category)];
    };
    const std::size_t up = 240 * sizeof(float);  // up.weight: 231 elements, and padding
    EXPECT_EQ(peak("", Category::gradients) - peak("up.weight", Category::gradients), up);
    EXPECT_EQ(peak("", Category::optimizer_state) - peak("up.weight", Category::optimizer_state), 2 * up);
}

TEST(AccumulatorMemory, GradientsAreThereFromBackwardToTheStep) {
    Context context = Context::cpu(kOptions);
    Regression model(context);
    AdamW optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    const auto gradient_bytes = [&] {
        return context.memory().statistics().allocated_by_category[static_cast<std::size_t>(Category::gradients)];
    };
    EXPECT_EQ(gradient_bytes(), 0u);
    accumulator.accumulate([&] { return model.loss(0, 8); });
    EXPECT_GT(gradient_bytes(), 0u);
    const Tensor kept = model.up.grad();
    const std::vector<float> values = kept.to_vector<float>();
    accumulator.step(0.01);
    EXPECT_FALSE(model.up.grad().defined());
    EXPECT_EQ(kept.to_vector<float>(), values);  // a handle keeps its segment
    EXPECT_GT(gradient_bytes(), 0u);
    accumulator.accumulate([&] { return model.loss(8, 8); });
    accumulator.step(0.01);
    EXPECT_EQ(kept.to_vector<float>(), values);
}

TEST(AccumulatorMemory, ADryStepReportsZeros) {
    Context context = Context::dry({.threads = 2});
    Regression model(context);
    AdamW optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer, {.clip = 1.0, .scale = LossScale::dynamic()});
    accumulator.accumulate([&] { return model.loss(0, 8); });
    accumulator.step(0.01);
    const StepResult result = accumulator.result();
    EXPECT_EQ(result.loss, 0.0);
    EXPECT_EQ(result.gradient_norm, 0.0);
    EXPECT_TRUE(result.finite);
    EXPECT_FALSE(result.skipped);
    EXPECT_EQ(optimizer.steps(), 1);
}

}  // namespace accumulator_memory_test
}  // namespace headroom::optim
