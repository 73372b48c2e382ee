#include <headroom/kernels/step_control/step_control.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <headroom/kernels/step_control/formulas.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace step_control_devices_test {

using namespace test;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const LossScaleRule kDynamic{
    .enabled = true, .growth = 2, .backoff = 0.5, .interval = 3, .minimum = 1, .maximum = 0x1p20};

/// The numbers of a struct of f64.
template <class Struct>
TestArray array_of(const Struct& numbers) {
    TestArray result(Dtype::f64, {sizeof(Struct) / sizeof(double)});
    std::memcpy(result.begin_of_memory(), &numbers, sizeof numbers);
    return result;
}

class StepControl : public DeviceTest {
  protected:
    void begin(StepState& state) {
        TestArray numbers = array_of(state);
        const View view = device().put(numbers);
        device().run([&](auto& stream) { begin_step(stream, view); });
        device().get(view, numbers);
        std::memcpy(&state, numbers.begin_of_memory(), sizeof state);
    }
    void add(double terms, double beta, StepState& state) {
        TestArray numbers = array_of(state);
        const View view = device().put(numbers);
        device().run([&](auto& stream) { add_terms(stream, terms, beta, view); });
        device().get(view, numbers);
        std::memcpy(&state, numbers.begin_of_memory(), sizeof state);
    }
    /// Of three rows of outcomes, the one that was written.
    StepOutcome end(const StepRule& rule, StepState& state) {
        constexpr std::int64_t kRows = 3;
        StepOutcome outcomes[kRows];
        TestArray numbers = array_of(state), results(Dtype::f64, {kRows, kStepOutcomeElements});
        std::memcpy(results.begin_of_memory(), outcomes, sizeof outcomes);
        const View view = device().put(numbers), to = device().put(results);
        device().run([&](auto& stream) { end_step(stream, rule, view, to); });
        device().get(view, numbers), device().get(to, results);
        const auto row = static_cast<std::size_t>(state.ended) % kRows;
        const double ended = state.ended;
        std::memcpy(&state, numbers.begin_of_memory(), sizeof state);
        EXPECT_EQ(state.ended, ended + 1);
        const StepOutcome untouched;
        std::memcpy(outcomes, results.begin_of_memory(), sizeof outcomes);
        for (std::size_t i = 0; i < kRows; ++i) {
            if (i == row) continue;
            EXPECT_EQ(std::memcmp(&outcomes[i], &untouched, sizeof untouched), 0);
        }
        return outcomes[row];
    }

    /// Ends a step of 8 terms whose loss adds up to 4 and whose gradients' squares to 36.
    struct Step {
        StepState state{.loss_sum = 4, .terms = 8, .squared_gradients = 36, .scale = 16, .seed = 2};
        StepRule rule;
        StepControl* test;

        StepOutcome end() { return test->end(rule, state); }
    };
    Step step{.rule = {}, .test = this};
};

TEST_P(StepControl, SeedsWithThePowerOfTwoNextToTheScalePerTerm) {
    for (const double scale : {1.0, 65536.0, 3.0, 1e-3, 1e9}) {
        for (const double terms : {0.0, 1.0, 2.0, 5.0, 48.0, 1e6, 3.7, 1e-9}) {
            const double expected = std::max(1.0, terms);
            StepState state{.terms = terms, .scale = scale};
            begin(state);
            EXPECT_EQ(state.seed, std::exp2(std::round(std::log2(scale / expected)))) << scale << ' ' << expected;
        }
    }
}

TEST(StepFormulas, PowersOfTwoAreNextOnALogarithmicScale) {
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

TEST_P(StepControl, DividesByTheTermsAndTheSeed) {
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.loss, 0.5);
    EXPECT_EQ(outcome.multiplier, 1.0 / 16);
    EXPECT_EQ(outcome.gradient_norm, 6.0 / 16);
    EXPECT_EQ(outcome.terms, 8);
    EXPECT_EQ(outcome.verdict, StepOutcome::kTaken);
    EXPECT_EQ(step.state.multiplier, 1.0 / 16);
}

TEST_P(StepControl, AddsTerms) {
    StepState state{.terms = kNan};
    add(3, 0, state);
    EXPECT_EQ(state.terms, 3);
    add(5, 1, state);
    EXPECT_EQ(state.terms, 8);
}

TEST_P(StepControl, ClipsToTheNorm) {
    step.rule.clip = 0.25;
    EXPECT_EQ(step.end().multiplier, 1.0 / 16);
    EXPECT_EQ(step.state.multiplier, 1.0 / 16 * (0.25 / (6.0 / 16 + 1e-6)));
    step.rule.clip = 1;
    step.end();
    EXPECT_EQ(step.state.multiplier, 1.0 / 16);
}

TEST_P(StepControl, SkipsAStepWithoutTermsAndLeavesTheScale) {
    step.rule.scale = kDynamic;
    step.state.good_steps = 2;
    step.state.terms = 0;
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.verdict, StepOutcome::kSkipped);
    EXPECT_EQ(outcome.loss, 0);
    EXPECT_EQ(outcome.gradient_norm, 0);
    EXPECT_EQ(outcome.multiplier, 1);
    EXPECT_EQ(step.state.multiplier, 0);
    EXPECT_EQ(step.state.good_steps, 2);
}

TEST_P(StepControl, GradientsThatAreNotFiniteLowerTheScaleUntilItIsExhausted) {
    for (const double bad : {kInfinity, kNan}) {
        step = {.rule = {}, .test = this};
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

TEST_P(StepControl, GoodStepsRaiseTheScaleUpToItsMaximum) {
    step.rule.scale = kDynamic;
    step.rule.scale.maximum = 40;
    for (const double scale : {16.0, 16.0, 32.0, 32.0, 32.0, 40.0}) {
        step.end();
        EXPECT_EQ(step.state.scale, scale);
    }
    EXPECT_EQ(step.state.good_steps, 0);
}

TEST_P(StepControl, ALossThatIsNotFiniteSkipsTheStepAndNotTheScale) {
    step.rule.scale = kDynamic;
    step.state.loss_sum = kNan;
    EXPECT_EQ(step.end().verdict, StepOutcome::kSkipped);
    EXPECT_EQ(step.state.scale, 16);
    EXPECT_EQ(step.state.good_steps, 1);
    step.rule.scale = {};
    EXPECT_EQ(step.end().verdict, StepOutcome::kDiverged);
}

TEST_P(StepControl, StopsForGoodIfAsked) {
    step.rule.stop_when_diverged = true;
    step.state.loss_sum = kInfinity;
    EXPECT_EQ(step.end().verdict, StepOutcome::kDiverged);
    step.state.loss_sum = 4;
    const StepOutcome outcome = step.end();
    EXPECT_EQ(outcome.verdict, StepOutcome::kDiverged);
    EXPECT_EQ(outcome.loss, 0.5);
    EXPECT_EQ(step.state.multiplier, 0);
}

TEST_P(StepControl, CountsStepsThatAreTaken) {
    TestArray steps(Dtype::f64, {}), multiplier(Dtype::f64, {});
    steps.set(0, 7);
    const View count = device().put(steps);
    for (const double value : {0.0, -0.0, kNan, 1e-300, -0.5, 0.0}) {
        multiplier.set(0, value);
        const View factor = device().put(multiplier);
        device().run([&](auto& stream) { count_step(stream, factor, count); });
    }
    device().get(count, steps);
    EXPECT_EQ(steps.get(0), 9);
}

/// To the last bit, also of NaN and of numbers at the ends of their range.
TEST_P(StepControl, DecidesAsTheCpuDoes) {
    const StepState states[] = {{4, 3, 36, 16, 0, 2, 0, 0, 0},         {1e5 / 3, 0, 1e9 / 7, 3, 1, 0.125, 5, 0, 7},
                                {4, 0, kInfinity, 16, 1, 2, 0, 0, 0},  {4, 0, kNan, 1, 2, 2, 0, 0, 0},
                                {-kInfinity, 0, 36, 1, 2, 2, 0, 0, 0}, {kNan, 0, 0, 1e-320, 2, 2, 0, 0, 0},
                                {4, 0, 36, 1000, 2, 2, 0, 1, 2},       {1e-300, 0, 1e-300, 48, 0, 1e-3, 0, 0, 0}};
    const LossScaleRule dynamic{.enabled = true, .interval = 3, .minimum = 1, .maximum = 20};
    CpuStream cpu;
    const auto expect_same = [](const auto& got, const auto& want) {
        const auto a = array_of(got).values(), b = array_of(want).values();
        for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])) << i;
    };
    for (const StepState& initial : states) {
        for (const double terms : {0.0, 1.0, 7.0, 48.0, 1e6, 0.3, 1e-300, 1e300}) {
            StepState counted = initial;
            counted.terms = terms;
            StepState got = counted, want = counted;
            begin(got);
            begin_step(cpu, contiguous_view(&want, Dtype::f64, {kStepStateElements}));
            expect_same(got, want);
            for (const StepRule& rule : {StepRule{}, StepRule{.clip = 0.1}, StepRule{.clip = 1, .scale = dynamic},
                                         StepRule{.stop_when_diverged = true}}) {
                got = want = counted;
                StepOutcome outcome;
                const StepOutcome found = end(rule, got);
                end_step(cpu, rule, contiguous_view(&want, Dtype::f64, {kStepStateElements}),
                         contiguous_view(&outcome, Dtype::f64, {1, kStepOutcomeElements}));
                expect_same(got, want), expect_same(found, outcome);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, StepControl, testing::ValuesIn(kPlaces), place_name);

}  // namespace step_control_devices_test
}  // namespace headroom::kernels
