#include <gtest/gtest.h>

#include <headroom/optim/adamw.hpp>
#include <headroom/optim/window.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom {
namespace {

using test::Regression;

/// Statistics after some steps of `count` equal micro-batches each.
MemoryStatistics train(Context context, int count, Dtype dtype = Dtype::f32) {
    Regression model(context, dtype);
    AdamW optimizer(model.parameters);
    Window window(model.parameters, optimizer, {.clip = 1.0});
    for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < count; ++i) {
            window.accumulate([&] { return model.micro_batch(8 * i, 8); });
        }
        window.step(0.01);
    }
    return context.memory().statistics();
}

const ContextOptions kOptions{.threads = 2, .seed = 1};

TEST(WindowMemory, EightMicroBatchesPeakAtNotOneByteMoreThanOne) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        const MemoryStatistics one = train(Context::cpu(kOptions), 1, dtype);
        const MemoryStatistics eight = train(Context::cpu(kOptions), 8, dtype);
        EXPECT_EQ(eight.peak_allocated, one.peak_allocated);
        EXPECT_EQ(eight.peak_reserved, one.peak_reserved);
        EXPECT_EQ(eight.at_peak_by_category, one.at_peak_by_category);
    }
}

TEST(WindowMemory, ADryRunPeaksAsTheRealOne) {
    const Profile profile = Context::cpu(kOptions).profile();
    for (const int count : {1, 3, 8}) {
        const MemoryStatistics real = train(Context::cpu(kOptions), count);
        const MemoryStatistics dry = train(Context::dry(profile), count);
        EXPECT_EQ(dry.peak_allocated, real.peak_allocated);
        EXPECT_EQ(dry.peak_reserved, real.peak_reserved);
        EXPECT_EQ(dry.allocations, real.allocations);
    }
}

TEST(WindowMemory, ADryWindowReportsZerosAndSteps) {
    Context context = Context::dry({.threads = 2});
    Regression model(context);
    AdamW optimizer(model.parameters);
    Window window(model.parameters, optimizer, {.clip = 1.0, .scale = LossScale::dynamic()});
    window.accumulate([&] { return model.micro_batch(0, 8); });
    window.step(0.01);
    const StepResult result = window.result();
    EXPECT_EQ(result.loss, 0.0);
    EXPECT_EQ(result.gradient_norm, 0.0);
    EXPECT_EQ(result.terms, 8.0);
    EXPECT_TRUE(result.finite);
    EXPECT_FALSE(result.skipped);
    EXPECT_EQ(optimizer.steps(), 1);
}

}  // namespace
}  // namespace headroom
