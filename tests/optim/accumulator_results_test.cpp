// A training queues its steps and looks at their results later: the same steps, the same results.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {

bool operator==(const StepResult& a, const StepResult& b) {
    const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
    return same(a.loss, b.loss) && same(a.gradient_norm, b.gradient_norm) && a.terms == b.terms &&
           a.multiplier == b.multiplier && a.finite == b.finite && a.skipped == b.skipped && a.diverged == b.diverged;
}
void PrintTo(const StepResult& r, std::ostream* out) {
    *out << "loss " << r.loss << ", norm " << r.gradient_norm << ", terms " << r.terms << ", finite " << r.finite
         << ", skipped " << r.skipped << ", diverged " << r.diverged;
}

namespace accumulator_results_test {

using test::Regression;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Training {
    explicit Training(GradientAccumulatorOptions options) : accumulator(model.parameters, optimizer, options) {}

    /// An input of the step is not a number if `broken`; `size` 0 makes a accumulator without terms.
    void step(std::int64_t size, bool broken = false) {
        const double before = std::exchange(model.inputs[0], broken ? kInfinity : model.inputs[0]);
        accumulator.accumulate(
            [&] { return Loss(model.loss(0, std::max<std::int64_t>(1, size)).sum(), static_cast<double>(size)); });
        model.inputs[0] = before;
        accumulator.step(0.01);
    }

    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    AdamW optimizer{model.parameters};
    GradientAccumulator accumulator;
};

/// Steps of all kinds.
void run(Training& training, std::vector<StepResult>* results) {
    const auto step = [&](std::int64_t size, bool broken = false) {
        training.step(size, broken);
        if (results) results->push_back(training.accumulator.result());
    };
    for (const std::int64_t size : {8, 5, 0, 16}) step(size);
    step(8, true);
    for (const std::int64_t size : {1, 0, 7, 9}) step(size);
}

const GradientAccumulatorOptions kClipped{.clip = 0.5, .scale = LossScale::dynamic({.interval = 2}), .kept_results = 9};

TEST(AccumulatorResults, ReadLateAreThoseReadAfterEachStep) {
    Training early(kClipped), late(kClipped);
    std::vector<StepResult> expected;
    run(early, &expected);
    run(late, nullptr);
    EXPECT_EQ(late.accumulator.unread(), 9);
    EXPECT_EQ(late.accumulator.result(), expected.back());
    EXPECT_EQ(late.accumulator.results(), expected);
    EXPECT_EQ(late.accumulator.unread(), 0);
    EXPECT_TRUE(late.accumulator.results().empty());
    EXPECT_EQ(late.accumulator.result(), expected.back());
    EXPECT_EQ(late.model.values(), early.model.values());
    EXPECT_EQ(late.optimizer.steps(), 6);
    EXPECT_EQ(late.accumulator.loss_scale().state().scale, early.accumulator.loss_scale().state().scale);
    EXPECT_TRUE(expected[2].skipped && expected[2].finite);
    EXPECT_TRUE(expected[4].skipped && !expected[4].finite && !expected[4].diverged);
}

TEST(AccumulatorResults, AreThoseOfTheLastStepsIfThereAreMoreThanAreKept) {
    Training all(kClipped), four({.clip = 0.5, .scale = LossScale::dynamic({.interval = 2}), .kept_results = 4});
    std::vector<StepResult> expected;
    run(all, &expected);
    run(four, nullptr);
    std::vector<StepResult> last = four.accumulator.results();
    ASSERT_EQ(last.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(last[i].loss, expected[5 + i].loss);
        EXPECT_EQ(last[i].terms, expected[5 + i].terms);
    }
    four.step(3);
    last = four.accumulator.results();
    ASSERT_EQ(last.size(), 1u);
    EXPECT_EQ(last[0].terms, 3);
    EXPECT_EQ(last[0], four.accumulator.result());
}

TEST(AccumulatorResults, AStepThatDivergedIsTheLastIfAsked) {
    Training stopped({.stop_when_diverged = true, .kept_results = 9});
    for (const std::int64_t size : {8, 5}) stopped.step(size);
    const std::vector<double> before = stopped.model.values();
    stopped.step(8, true);
    for (const std::int64_t size : {8, 0, 5}) stopped.step(size);
    EXPECT_EQ(stopped.model.values(), before);
    EXPECT_EQ(stopped.optimizer.steps(), 2);
    const std::vector<StepResult> results = stopped.accumulator.results();
    ASSERT_EQ(results.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(results[i].diverged, i >= 2);
        EXPECT_EQ(results[i].skipped, i >= 2);
        EXPECT_EQ(results[i].finite, i != 2);
    }
    Training going_on({.kept_results = 3});
    going_on.step(8, true);
    going_on.step(8);
    EXPECT_EQ(going_on.optimizer.steps(), 1);
}

TEST(AccumulatorResults, AreRefusedBeforeTheFirstStep) {
    Training training({});
    EXPECT_THROW(training.accumulator.result(), Error);
    EXPECT_TRUE(training.accumulator.results().empty());
    EXPECT_THROW(Training({.kept_results = 0}), Error);
}

TEST(AccumulatorResults, OfADryContextAreZeros) {
    Context context = Context::dry({.threads = 2});
    Regression model(context);
    AdamW optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer, {.kept_results = 2});
    for (int i = 0; i < 3; ++i) {
        accumulator.accumulate([&] { return model.loss(0, 8); });
        accumulator.step(0.01);
    }
    const std::vector<StepResult> results = accumulator.results();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[1].loss, 0.0);
    EXPECT_FALSE(results[1].skipped);
    EXPECT_EQ(optimizer.steps(), 3);
}

}  // namespace accumulator_results_test
}  // namespace headroom::optim
