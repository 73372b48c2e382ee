#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/optim/regression.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom::optim {
namespace accumulator_exceptions_test {

using headroom::test::throws;
using test::Regression;

/// Two micro-batches per step; every callable draws random numbers and may fail.
struct Trainer {
    Loss micro_batch(std::int64_t row, toy::Faults faults = {}) {
        faults_ = faults;
        const Loss loss = model.loss(row, 16);
        return {toy::fragile(toy::noisy(loss.sum()), faults_), 16.0};
    }
    std::size_t allocated() { return context.memory().statistics().allocated; }
    void undisturbed_step() {
        accumulator.accumulate([&] { return micro_batch(0); });
        accumulator.accumulate([&] { return micro_batch(16); });
        accumulator.step(0.01);
    }
    /// Values after one step that nothing disturbed.
    static std::vector<double> expected_values() {
        Trainer other;
        other.undisturbed_step();
        return other.model.values();
    }
    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    Sgd optimizer{model.parameters, {.momentum = 0.9}};
    GradientAccumulator accumulator{model.parameters, optimizer};
    toy::Faults faults_;
};

class AccumulatorExceptions : public ::testing::Test, protected Trainer {};

TEST_F(AccumulatorExceptions, ARetriedMicroBatchIsAsIfItHadNotFailed) {
    for (const bool fail_first : {true, false}) {
        Trainer run;
        const auto failing = [&](std::int64_t row) {
            const std::size_t before = run.allocated();
            EXPECT_THROW(run.accumulator.accumulate([&] { return run.micro_batch(row, {.forward = 0}); }), Error);
            EXPECT_EQ(run.context.tape().size(), 0u);
            EXPECT_EQ(run.allocated(), before);
            EXPECT_THROW(run.accumulator.step(0.01), Error);
        };
        if (fail_first) failing(0);
        run.accumulator.accumulate([&] { return run.micro_batch(0); });
        if (!fail_first) failing(16);
        if (!fail_first) failing(16);
        run.accumulator.accumulate([&] { return run.micro_batch(16); });
        run.accumulator.step(0.01);
        EXPECT_EQ(run.model.values(), expected_values());
    }
}

TEST_F(AccumulatorExceptions, HandlesThatSurviveTheCallableCanBeReadAlone) {
    Tensor survivor;
    EXPECT_THROW(accumulator.accumulate([&]() -> Loss {
        survivor = model.loss(0, 16).sum();
        throw std::runtime_error("the callable's own");
    }),
                 std::runtime_error);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_GT(survivor.item(), 0.0);
    const auto again = [&] { accumulator.accumulate([&] { return Loss(survivor, 16); }); };
    EXPECT_THAT(again, throws<Error>("accumulator: an earlier backward consumed the loss"));
    accumulator.accumulate([&] { return micro_batch(0); });
    accumulator.step(0.01);
}

TEST_F(AccumulatorExceptions, WhatWasRecordedBeforeTheCallableStays) {
    const Tensor loss = model.loss(0, 16).sum();
    const std::size_t records = context.tape().size();
    EXPECT_THROW(accumulator.accumulate([&] { return micro_batch(0, {.forward = 0}); }), Error);
    EXPECT_EQ(context.tape().size(), records);
    EXPECT_TRUE(loss.requires_grad());
    EXPECT_NO_THROW(backward(loss));
}

TEST_F(AccumulatorExceptions, AFailedBackwardNeedsAReset) {
    const std::size_t before = allocated();
    accumulator.accumulate([&] { return micro_batch(0); });
    EXPECT_THROW(accumulator.accumulate([&] { return micro_batch(16, {.backward = 0}); }), Error);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_EQ(allocated(), before);
    EXPECT_THROW(accumulator.accumulate([&] { return micro_batch(16); }), Error);
    EXPECT_THROW(accumulator.step(0.01), Error);
    accumulator.reset();
    EXPECT_THROW(accumulator.step(0.01), Error);  // nothing is there
    context.set_random_counter(0);
    undisturbed_step();
    EXPECT_EQ(model.values(), expected_values());
    EXPECT_EQ(allocated(), before);
}

/// The device has decided about the step when the optimizer fails: a second attempt would be a second decision.
TEST_F(AccumulatorExceptions, AStepThatFailedOnTheWayNeedsAReset) {
    struct Failing final : UpdateRule {
        Failing() : UpdateRule("failing") {}
        void update(Exec& exec, const Range& range, const View& multiplier) const override {
            if (fails) throw DeviceError("a launch");
            exec.launch([&](auto& stream) {
                kernels::sgd(stream, {}, range.learning_rate, multiplier, range.gradient, range.values, nullptr);
            });
        }
        bool fails = true;
    };
    const auto failing = std::make_shared<Failing>();
    Optimizer by_failing(model.parameters, failing);
    GradientAccumulator steps(model.parameters, by_failing);
    const auto two = [&] {
        steps.accumulate([&] { return micro_batch(0); });
        steps.accumulate([&] { return micro_batch(16); });
    };
    two();
    EXPECT_THAT([&] { steps.step(0.01); }, throws<DeviceError>("a launch"));
    failing->fails = false;
    constexpr const char* refused = "accumulator: a backward pass or a step failed";
    EXPECT_THAT([&] { steps.step(0.01); }, throws<Error>(refused));
    EXPECT_THAT([&] { steps.accumulate([&] { return micro_batch(0); }); }, throws<Error>(refused));
    steps.reset();
    context.set_random_counter(0);
    two();
    steps.step(0.01);
    EXPECT_EQ(model.values(), expected_values());
}

/// What the device has counted of a step that failed is taken back: later steps' results lie in their own places.
TEST_F(AccumulatorExceptions, ResultsBehindAStepThatFailedAreThoseOfTheSteps) {
    struct Counted final : UpdateRule {
        Counted() : UpdateRule("counted") {}
        void update(Exec&, const Range&, const View&) const override {
            if (fails) throw DeviceError("a launch");
        }
        bool fails = false;
    };
    const auto rule = std::make_shared<Counted>();
    Optimizer counted(model.parameters, rule);
    constexpr std::int64_t kept = 4;
    GradientAccumulator steps(model.parameters, counted, {.kept_results = kept});
    const auto step = [&](std::int64_t size, bool fails) {
        steps.accumulate([&] { return model.loss(0, size); });
        rule->fails = fails;
        if (!fails) return steps.step(0.01);
        EXPECT_THAT([&] { steps.step(0.01); }, throws<DeviceError>("a launch"));
        steps.reset();
    };
    std::vector<double> expected;
    for (std::int64_t size = 1; size <= 2 * kept + 1; ++size) {
        for (std::int64_t failures = size % 3; failures > 0; --failures) step(31, true);
        step(size, false);
        expected.push_back(static_cast<double>(size));
        EXPECT_EQ(steps.result().terms, size);
        if (size % kept != 0) continue;
        std::vector<double> terms;
        for (const StepResult& result : steps.results()) terms.push_back(result.terms);
        EXPECT_EQ(terms, std::vector<double>(expected.end() - kept, expected.end()));
    }
    EXPECT_EQ(counted.steps(), 2 * kept + 1);
}

TEST_F(AccumulatorExceptions, AStepThatCannotBeginMayBeRepeated) {
    double rate = std::nan("");
    const ParameterGroup late{.pattern = "**", .schedule = [&](std::int64_t) { return rate; }};
    Sgd scheduled(model.parameters, {.momentum = 0.9, .groups = {late}});
    GradientAccumulator steps(model.parameters, scheduled);
    steps.accumulate([&] { return micro_batch(0); });
    steps.accumulate([&] { return micro_batch(16); });
    EXPECT_THAT([&] { steps.step(0.01); }, throws<Error>("sgd: the learning rate must be finite"));
    rate = 0.01;
    steps.step(0.01);
    EXPECT_EQ(model.values(), expected_values());
}

TEST_F(AccumulatorExceptions, DoesNotNest) {
    EXPECT_THROW(accumulator.accumulate([&] {
        accumulator.accumulate([&] { return micro_batch(0); });
        return micro_batch(16);
    }),
                 Error);
    EXPECT_THROW(accumulator.accumulate([&] {
        accumulator.reset();
        return micro_batch(16);
    }),
                 Error);
    undisturbed_step();
    EXPECT_EQ(model.values(), expected_values());
}

}  // namespace accumulator_exceptions_test
}  // namespace headroom::optim
