// The examples of the headers of kernels that an optimizer's step is made of: each is compiled as the header shows it.
#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/kernels/step_control/formulas.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/optim/clip.hpp>
#include <headroom/tests/docs/kernel_arrays.hpp>

namespace headroom::kernels {
namespace header_examples_step_kernels_test {

using namespace test;

void adamw_example(CpuStream& stream, const View& learning_rate, const View& multiplier, const View& steps,
                   const View& gradient, const View& parameter, const View& first, const View& second) {
    AdamWStep step{.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
    adamw(stream, step, learning_rate, multiplier, steps, gradient, parameter, first, second);
}

void sgd_example(CpuStream& stream, const View& learning_rate, const View& multiplier, const View& gradient,
                 const View& parameter, const View& velocity) {
    SgdStep step{.momentum = 0.9, .nesterov = true};
    sgd(stream, step, learning_rate, multiplier, gradient, parameter, &velocity);
}

double formulas_example(const StepRule& rule, StepState& state) {
    const StepOutcome outcome = conclude(rule, state);
    double factor = optim::clip_factor(outcome.gradient_norm, 1.0);
    return factor;
}

void step_control_example(CpuStream& stream, const View& state, const StepRule& rule, const View& outcomes,
                          const AdamWStep& step, const View& learning_rate, const View& multiplier, const View& steps,
                          const View& gradient, const View& parameter, const View& first, const View& second) {
    add_terms(stream, 4096, 0, state);
    begin_step(stream, state);
    state.as<StepState>()->loss_sum = 8192;
    state.as<StepState>()->squared_gradients = 9;
    end_step(stream, rule, state, outcomes);
    adamw(stream, step, learning_rate, multiplier, steps, gradient, parameter, first, second);
    count_step(stream, multiplier, steps);
}

bool sum_of_squares_example(CpuStream& stream, const View& gradients, const View& result, const View& activations,
                            std::byte* scratch) {
    const SumOfSquaresPlan plan(stream, gradients, result, 0);
    plan.run(stream, scratch);
    const double value = *result.as<double>();  // not shown
    if (!std::isfinite(value)) return false;
    bool fine = all_finite(stream, activations, scratch);
    return fine;
}

TEST(HeaderExamples, OfOptimizersRun) {
    CpuStream stream;
    const TestArray learning_rate = array({}, {0.1}, Dtype::f64), one = array({}, {1}, Dtype::f64);
    const TestArray none = array({}, {0}, Dtype::f64), gradient = array({2}, {1});
    const TestArray parameter = array({2}, {1}), first = array({2}, {0}), second = array({2}, {0});
    adamw_example(stream, learning_rate, one, none, gradient, parameter, first, second);
    expect_near(parameter, {0.89, 0.89});

    const TestArray weight = array({2}, {1}), velocity = array({2}, {0});
    sgd_example(stream, learning_rate, one, gradient, weight, velocity);
    expect_near(weight, {0.81, 0.81});
    expect_near(velocity, {1, 1});
}

TEST(HeaderExamples, OfStepControlRun) {
    CpuStream stream;
    Memory allocate;
    const TestArray learning_rate = array({}, {0.1}, Dtype::f64), steps = array({}, {0}, Dtype::f64);
    const TestArray gradient = array({2}, {1}), parameter = array({2}, {1});
    const TestArray first = array({2}, {0}), second = array({2}, {0});
    StepState state;
    StepOutcome outcome;
    const View states = contiguous_view(&state, Dtype::f64, {kStepStateElements});
    const View outcomes = contiguous_view(&outcome, Dtype::f64, {1, kStepOutcomeElements});
    const View multiplier = contiguous_view(&state.multiplier, Dtype::f64, {});
    step_control_example(stream, states, {}, outcomes, {.weight_decay = 0.1}, learning_rate, multiplier, steps,
                         gradient, parameter, first, second);
    EXPECT_EQ(outcome.loss, 2);
    EXPECT_EQ(outcome.gradient_norm, 3);
    EXPECT_EQ(outcome.verdict, StepOutcome::kTaken);
    EXPECT_EQ(steps.get(0), 1);
    expect_near(parameter, {0.89, 0.89});
    EXPECT_NEAR(formulas_example({}, state), 1.0 / 3, 1e-6);

    const TestArray result = array({}, {7}, Dtype::f64);
    EXPECT_TRUE(sum_of_squares_example(stream, array({3}, {1, 2, 3}), result, gradient, allocate(0)));
    EXPECT_EQ(result.get(0), 14);
    EXPECT_FALSE(sum_of_squares_example(stream, array({2}, {1, INFINITY}), result, gradient, allocate(0)));
    EXPECT_FALSE(sum_of_squares_example(stream, gradient, result, array({2}, {1, NAN}), allocate(0)));
}

}  // namespace header_examples_step_kernels_test
}  // namespace headroom::kernels
