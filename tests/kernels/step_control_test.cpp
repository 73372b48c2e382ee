#include <headroom/kernels/step_control/step_control.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const LossScaleRule kDynamic{
    .enabled = true, .growth = 2, .backoff = 0.5, .interval = 3, .minimum = 1, .maximum = 0x1p20};

/// Ends a step of 8 terms whose loss adds up to 4 and whose gradients' squares to 36.
struct Step {
    StepState state{.loss_sum = 4, .squared_gradients = 36, .scale = 16, .seed = 2};
    StepRule rule;
    double terms = 8;

    StepOutcome end() {
        CpuStream stream;
        StepOutcome outcome;
        end_step(stream, rule, terms, contiguous_view(&state, Dtype::f64, {kStepStateElements}),
                 contiguous_view(&outcome, Dtype::f64, {kStepOutcomeElements}));
        return outcome;
    }
};

TEST(StepControl, SeedsWithThePowerOfTwoNextToTheScalePerTerm) {
    CpuStream stream;
    for (const double scale : {1.0, 65536.0, 3.0, 1e-3, 1e9}) {
        for (const double terms : {0.0, 1.0, 2.0, 5.0, 48.0, 1e6, 3.7, 1e-9}) {
            const double expected = std::max(1.0, terms);
            StepState counted{.terms = terms, .scale = scale}, known{.scale = scale};
            begin_step(stream, 0, contiguous_view(&counted, Dtype::f64, {kStepStateElements}));
            begin_step(stream, terms, contiguous_view(&known, Dtype::f64, {kStepStateElements}));
            EXPECT_EQ(known.seed, std::exp2(std::round(std::log2(scale / expected)))) << scale << ' ' << expected;
            EXPECT_EQ(counted.seed, known.seed);
        }
    }
}

TEST(StepControl, PowersOfTwoAreNextOnALogarithmicScale) {
    const double root = std::sqrt(2.0);
    for (const int exponent : {-1022, -1021, -60, -1, 0, 1, 52, 1000, 1022}) {
        const double power = std::ldexp(1.0, exponent);
        EXPECT_EQ(nearest_power_of_two(power), power);
        EXPECT_EQ(nearest_power_of_two(power * std::nextafter(root, 1)), power);
        EXPECT_EQ(nearest_power_of_two(power * std::nextafter(root, 2)), 2 * power);
        EXPECT_EQ(nearest_power_of_two(power * 1.99), 2 * power);
    }
    EXPECT_EQ(nearest_power_of_two(0x1p-1074), 0x1p-1074);
    EXPECT_EQ(nearest_power_of_two(3 * 0x1p-1074), 0x1p-1072);
    EXPECT_EQ(nearest_power_of_two(0.0), 0.0);
    EXPECT_EQ(nearest_power_of_two(std::numeric_limits<double>::max()), kInfinity);
}

TEST(StepControl, DividesByTheTermsAndTheSeed) {
    Step step;
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.loss, 0.5);
    EXPECT_EQ(outcome.multiplier, 1.0 / 16);
    EXPECT_EQ(outcome.gradient_norm, 6.0 / 16);
    EXPECT_EQ(outcome.terms, 8);
    EXPECT_EQ(outcome.verdict, StepOutcome::kTaken);
    EXPECT_EQ(step.state.multiplier, 1.0 / 16);
}

TEST(StepControl, AddsTheTermsThatTheDeviceCounted) {
    Step step;
    step.terms = 3;
    step.state.terms = 5;
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.terms, 8);
    EXPECT_EQ(outcome.loss, 0.5);
}

TEST(StepControl, ClipsToTheNorm) {
    Step step;
    step.rule.clip = 0.25;
    EXPECT_EQ(step.end().multiplier, 1.0 / 16);
    EXPECT_EQ(step.state.multiplier, 1.0 / 16 * (0.25 / (6.0 / 16 + 1e-6)));
    step.rule.clip = 1;
    step.end();
    EXPECT_EQ(step.state.multiplier, 1.0 / 16);
}

TEST(StepControl, SkipsAStepWithoutTermsAndLeavesTheScale) {
    Step step;
    step.rule.scale = kDynamic;
    step.state.good_steps = 2;
    step.terms = 0;
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.verdict, StepOutcome::kSkipped);
    EXPECT_EQ(outcome.loss, 0);
    EXPECT_EQ(outcome.gradient_norm, 0);
    EXPECT_EQ(outcome.multiplier, 1);
    EXPECT_EQ(step.state.multiplier, 0);
    EXPECT_EQ(step.state.good_steps, 2);
}

TEST(StepControl, GradientsThatAreNotFiniteLowerTheScaleUntilItIsExhausted) {
    for (const double bad : {kInfinity, kNan}) {
        Step step;
        step.rule.scale = kDynamic;
        step.state.squared_gradients = bad;
        for (const double scale : {8.0, 4.0, 2.0, 1.0}) {
            EXPECT_EQ(step.end().verdict, StepOutcome::kSkipped);
            EXPECT_EQ(step.state.multiplier, 0);
            EXPECT_EQ(step.state.scale, scale);
        }
        EXPECT_EQ(step.end().verdict, StepOutcome::kDiverged);
        EXPECT_EQ(step.state.scale, 1);
        EXPECT_EQ(step.state.stopped, 0);
    }
}

TEST(StepControl, GoodStepsRaiseTheScaleUpToItsMaximum) {
    Step step;
    step.rule.scale = kDynamic;
    step.rule.scale.maximum = 40;
    for (const double scale : {16.0, 16.0, 32.0, 32.0, 32.0, 40.0}) {
        step.end();
        EXPECT_EQ(step.state.scale, scale);
    }
    EXPECT_EQ(step.state.good_steps, 0);
}

TEST(StepControl, ALossThatIsNotFiniteSkipsTheStepAndNotTheScale) {
    Step step;
    step.rule.scale = kDynamic;
    step.state.loss_sum = kNan;
    EXPECT_EQ(step.end().verdict, StepOutcome::kSkipped);
    EXPECT_EQ(step.state.scale, 16);
    EXPECT_EQ(step.state.good_steps, 1);
    step.rule.scale = {};
    EXPECT_EQ(step.end().verdict, StepOutcome::kDiverged);
}

TEST(StepControl, StopsForGoodIfAsked) {
    Step step;
    step.rule.stop_when_diverged = true;
    step.state.loss_sum = kInfinity;
    EXPECT_EQ(step.end().verdict, StepOutcome::kDiverged);
    step.state.loss_sum = 4;
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.verdict, StepOutcome::kDiverged);
    EXPECT_EQ(outcome.loss, 0.5);
    EXPECT_EQ(step.state.multiplier, 0);
}

TEST(StepControl, CountsStepsThatAreTaken) {
    CpuStream stream;
    double steps = 7;
    const View count = contiguous_view(&steps, Dtype::f64, {});
    for (double multiplier : {0.0, -0.0, kNan}) {
        count_step(stream, contiguous_view(&multiplier, Dtype::f64, {}), count);
        EXPECT_EQ(steps, 7);
    }
    for (double multiplier : {1e-300, -0.5}) count_step(stream, contiguous_view(&multiplier, Dtype::f64, {}), count);
    EXPECT_EQ(steps, 9);
}

}  // namespace
}  // namespace headroom::kernels
