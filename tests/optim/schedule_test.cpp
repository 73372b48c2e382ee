#include <headroom/optim/schedule.hpp>

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>

namespace headroom::optim {
namespace schedule_test {

/// nanoGPT's `get_lr`, line by line.
double nano_gpt(std::int64_t it, double rate, double minimum, double warmup, double decay) {
    const auto step = static_cast<double>(it);
    if (step < warmup) return rate * (step + 1) / (warmup + 1);
    if (step > decay) return minimum;
    const double ratio = (step - warmup) / (decay - warmup);
    return minimum + 0.5 * (1.0 + std::cos(std::numbers::pi * ratio)) * (rate - minimum);
}

TEST(Schedule, CosineIsNanoGpts) {
    const Schedule rate{.decay = Decay::cosine, .peak = 1e-3, .floor = 1e-4, .warmup_steps = 100, .decay_steps = 2000};
    for (std::int64_t step = 0; step < 2100; ++step)
        EXPECT_DOUBLE_EQ(rate(step), nano_gpt(step, 1e-3, 1e-4, 100, 2000));
    EXPECT_DOUBLE_EQ(rate(0), 1e-3 / 101);
    EXPECT_DOUBLE_EQ(rate(99), 1e-3 * 100 / 101);
    EXPECT_DOUBLE_EQ(rate(100), 1e-3);
    EXPECT_DOUBLE_EQ(rate(1050), 5.5e-4);
    EXPECT_DOUBLE_EQ(rate(2000), 1e-4);
    EXPECT_DOUBLE_EQ(rate(1'000'000), 1e-4);
}

TEST(Schedule, LinearFallsByEqualStepsToTheFloor) {
    const Schedule rate{.decay = Decay::linear, .peak = 1.0, .floor = 0.2, .warmup_steps = 4, .decay_steps = 12};
    EXPECT_DOUBLE_EQ(rate(3), 0.8);
    EXPECT_DOUBLE_EQ(rate(4), 1.0);
    EXPECT_DOUBLE_EQ(rate(6), 0.8);
    EXPECT_DOUBLE_EQ(rate(11), 0.3);
    EXPECT_DOUBLE_EQ(rate(12), 0.2);
    EXPECT_DOUBLE_EQ(rate(13), 0.2);
}

TEST(Schedule, ConstantStaysAfterWarmUp) {
    const Schedule rate{.peak = 0.3, .floor = 0.1, .warmup_steps = 2, .decay_steps = 5};
    EXPECT_DOUBLE_EQ(rate(0), 0.1);
    EXPECT_DOUBLE_EQ(rate(1), 0.2);
    for (std::int64_t step = 2; step < 10; ++step) EXPECT_DOUBLE_EQ(rate(step), 0.3);
    EXPECT_DOUBLE_EQ((Schedule{.peak = 0.3}(0)), 0.3);
}

TEST(Schedule, StaysFiniteWhereWarmUpFillsTheDecay) {
    const Schedule rate{.decay = Decay::cosine, .peak = 1.0, .floor = 0.1, .warmup_steps = 10, .decay_steps = 10};
    EXPECT_DOUBLE_EQ(rate(9), 10.0 / 11);
    EXPECT_DOUBLE_EQ(rate(10), 0.1);
}

TEST(Schedule, RefusesToFallWithinNoSteps) {
    for (const Decay decay : {Decay::linear, Decay::cosine}) {
        EXPECT_THROW(Schedule{.decay = decay}(0), Error);
    }
}

}  // namespace schedule_test
}  // namespace headroom::optim
