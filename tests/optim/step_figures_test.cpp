// Figures of a step beside its loss: sums over terms of their own, read when the results are.
#include <cmath>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace step_figures_test {

using headroom::test::throws;
using test::Regression;

/// The inputs' sum over so many rows as "inputs", and the loss again; the second one with terms on the device.
struct Training {
    explicit Training(bool dry = false,
                      GradientAccumulatorOptions options = {.kept_results = 3, .figures = {"inputs", "again"}})
        : context(dry ? Context::dry({.threads = 1}) : Context::cpu({.threads = 1})),
          accumulator(model.parameters, optimizer, std::move(options)) {}

    Loss work(std::int64_t first, std::int64_t count) {
        const Loss loss = model.loss(first, count);
        const auto rows = static_cast<double>(count);
        accumulator.figure("inputs", Loss(sum(model.rows(model.inputs, Regression::kIn, first, count)), rows));
        accumulator.figure("again",
                           Loss(loss.sum(), context.from_host(std::vector<float>{static_cast<float>(rows)}, {1})));
        return loss;
    }
    void accumulate(std::int64_t first, std::int64_t count) {
        accumulator.accumulate([&] { return work(first, count); });
    }
    double mean_input(std::int64_t first, std::int64_t count) const {
        double sum = 0;
        for (std::int64_t i = first * Regression::kIn; i < (first + count) * Regression::kIn; ++i)
            sum += model.inputs[static_cast<std::size_t>(i)];
        return sum / static_cast<double>(count);
    }

    Context context;
    Regression model{context, Dtype::f64};
    Sgd optimizer{model.parameters};
    GradientAccumulator accumulator;
};

TEST(StepFigures, AreMeansOverTheirOwnTermsHoweverSamplesAreSharedOut) {
    Training training;
    for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{12}, {5, 4, 3}, {1, 11}}) {
        std::int64_t first = 0;
        for (const std::int64_t size : sizes) training.accumulate(std::exchange(first, first + size), size);
        training.accumulator.step(0);
        const StepResult result = training.accumulator.result();
        ASSERT_EQ(result.figures.size(), 2u);
        EXPECT_EQ(result.figures[0].name, "inputs");
        EXPECT_NEAR(result.figures[0].value, training.mean_input(0, 12), 12 * Regression::kIn * 0x1p-52 * 10);
        EXPECT_EQ(result.figures[1].name, "again");
        EXPECT_EQ(result.figures[1].value, result.loss);
    }
}

TEST(StepFigures, ReadLateAreThoseOfTheirSteps) {
    Training training;
    for (std::int64_t step = 0; step < 5; ++step) {
        training.accumulate(step, 3);
        training.accumulator.step(0.01);
    }
    std::vector<StepResult> results = training.accumulator.results(1);  // of the three that are kept
    const StepResult last = training.accumulator.result();
    for (StepResult& later : training.accumulator.results()) results.push_back(std::move(later));
    ASSERT_EQ(results.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(results[i].figures.at(0).value, training.mean_input(2 + static_cast<std::int64_t>(i), 3), 1e-13);
        EXPECT_EQ(results[i].figures.at(1).value, results[i].loss);
    }
    EXPECT_EQ(last.figures.at(0).value, results[2].figures[0].value);
}

TEST(StepFigures, ThatSomeMicroBatchesTellAreOfThese) {
    Training training;
    training.accumulate(0, 4);
    training.accumulator.accumulate([&] { return training.model.loss(4, 4); });
    training.accumulator.step(0);
    EXPECT_NEAR(training.accumulator.result().figures[0].value, training.mean_input(0, 4), 1e-13);
    training.accumulator.accumulate([&] { return training.model.loss(4, 4); });
    training.accumulator.step(0);
    EXPECT_TRUE(std::isnan(training.accumulator.result().figures[0].value));
}

TEST(StepFigures, OfAMicroBatchThatFailedOrWasDroppedDoNotCount) {
    Training training;
    training.accumulate(0, 4);
    EXPECT_THROW(training.accumulator.accumulate([&]() -> Loss {
        training.work(20, 4);
        throw Error("no data");
    }),
                 Error);
    training.accumulate(4, 4);
    training.accumulator.step(0);
    EXPECT_NEAR(training.accumulator.result().figures[0].value, training.mean_input(0, 8), 1e-13);
    training.accumulate(20, 4);
    training.accumulator.reset();
    training.accumulate(8, 4);
    training.accumulator.step(0);
    EXPECT_NEAR(training.accumulator.result().figures[0].value, training.mean_input(8, 4), 1e-13);
}

TEST(StepFigures, TakeNothingOfTheStepAndThePredictedBytes) {
    Training with, dry(true);
    Training without(false, {.kept_results = 3});
    for (int step = 0; step < 2; ++step) {
        for (Training* each : {&with, &dry}) {
            each->accumulate(0, 8);
            each->accumulator.step(0.1);
        }
        without.accumulator.accumulate([&] { return without.model.loss(0, 8); });
        without.accumulator.step(0.1);
    }
    EXPECT_EQ(with.model.values(), without.model.values());
    EXPECT_TRUE(without.accumulator.result().figures.empty());
    EXPECT_EQ(with.context.memory().statistics().peak_allocated, dry.context.memory().statistics().peak_allocated);
    EXPECT_EQ(dry.accumulator.result().figures.at(1).value, 0);
}

TEST(StepFigures, Misuse) {
    Training training;
    Context other = Context::cpu({.threads = 1});
    const auto tell = [&](const char* name, Context& context) {
        training.accumulator.accumulate([&] {
            training.accumulator.figure(name, Loss(context.from_host(std::vector<float>{1}, {1}), 1));
            return training.model.loss(0, 4);
        });
    };
    EXPECT_THAT([&] { tell("input", training.context); },
                throws<Error>("unknown figure \"input\"; the options name inputs, again"));
    EXPECT_THAT([&] { tell("inputs", other); }, throws<Error>("the tensors belong to two contexts"));
    EXPECT_THAT([&] { training.accumulator.figure("inputs", training.model.loss(0, 4)); },
                throws<Error>("the figure \"inputs\" belongs to a micro-batch; report it inside one"));
    EXPECT_THAT(
        [] {
            Training(false, {.figures = {"a", "b", "a"}});
        },
        throws<Error>("two figures have the name \"a\""));
}

}  // namespace step_figures_test
}  // namespace headroom::optim
