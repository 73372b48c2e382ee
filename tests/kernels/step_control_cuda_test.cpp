// The GPU decides as the CPU does, to the last bit.
#include <headroom/kernels/step_control/step_control.hpp>

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using test::TestArray;
using StepControlCuda = test::CudaTest;

TestArray make_state(std::initializer_list<double> values) {
    TestArray state(Dtype::f64, {kStepStateElements});
    std::int64_t i = 0;
    for (const double value : values) state.set(i++, value);
    return state;
}

/// loss, terms, squares, scale, good steps, seed, multiplier, stopped
const std::vector<TestArray> kStates = {
    make_state({4, 3, 36, 16, 0, 2, 0, 0}),        make_state({1e5 / 3, 0, 1e9 / 7, 3, 1, 0.125, 5, 0}),
    make_state({4, 0, INFINITY, 16, 1, 2, 0, 0}),  make_state({4, 0, NAN, 1, 2, 2, 0, 0}),
    make_state({-INFINITY, 0, 36, 1, 2, 2, 0, 0}), make_state({NAN, 0, 0, 1e-320, 2, 2, 0, 0}),
    make_state({4, 0, 36, 1000, 2, 2, 0, 1}),      make_state({1e-300, 0, 1e-300, 48, 0, 1e-3, 0, 0}),
};

/// Bits, since some are NaN.
std::vector<std::byte> bits(const TestArray& x) { return x.memory(); }

TEST_F(StepControlCuda, SeedsAsTheCpuDoes) {
    CpuStream cpu;
    for (const TestArray& initial : kStates) {
        for (const double expected : {1.0, 48.0, 1e6, 0.3, 1e-300, 1e300}) {
            TestArray want(initial), got(initial);
            begin_step(cpu, expected, want);
            const View state = gpu->put(got);
            begin_step(gpu->stream, expected, state);
            gpu->get(state, got);
            EXPECT_EQ(bits(got), bits(want)) << expected;
        }
    }
}

TEST_F(StepControlCuda, DecidesAsTheCpuDoes) {
    CpuStream cpu;
    const LossScaleRule dynamic{.enabled = true, .interval = 3, .minimum = 1, .maximum = 20};
    for (const TestArray& initial : kStates) {
        for (const double terms : {0.0, 1.0, 7.0, 1e6}) {
            for (const StepRule& rule : {StepRule{}, StepRule{.clip = 0.1}, StepRule{.clip = 1, .scale = dynamic},
                                         StepRule{.stop_when_diverged = true}}) {
                TestArray want(initial), got(initial);
                TestArray want_outcome(Dtype::f64, {kStepOutcomeElements}), got_outcome(want_outcome);
                end_step(cpu, rule, terms, want, want_outcome);
                const View state = gpu->put(got), outcome = gpu->put(got_outcome);
                end_step(gpu->stream, rule, terms, state, outcome);
                gpu->get(state, got);
                gpu->get(outcome, got_outcome);
                for (std::int64_t i = 0; i < kStepStateElements; ++i) {
                    EXPECT_TRUE(got.get(i) == want.get(i) || (std::isnan(got.get(i)) && std::isnan(want.get(i)))) << i;
                }
                for (std::int64_t i = 0; i < kStepOutcomeElements; ++i) {
                    const double a = got_outcome.get(i), b = want_outcome.get(i);
                    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << a << ' ' << b;
                }
            }
        }
    }
}

TEST_F(StepControlCuda, CountsStepsThatAreTaken) {
    TestArray steps(Dtype::f64, {});
    steps.set(0, 7);
    const View count = gpu->put(steps);
    for (const double value : {0.0, std::nan(""), 0.5, -1e-30, 0.0}) {
        TestArray multiplier(Dtype::f64, {});
        multiplier.set(0, value);
        count_step(gpu->stream, gpu->put(multiplier), count);
    }
    gpu->get(count, steps);
    EXPECT_EQ(steps.get(0), 9);
}

}  // namespace
}  // namespace headroom::kernels
