// Every figure of a report has the value that follows from what was done: times by a clock that the task itself moves,
// losses from the results of the steps, bytes from the sizes of the model.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/hand_clock.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace figures_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kLoading = 0.25;  // seconds

double sum_of(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

/// Takes so many seconds for each of its micro-batches as it notes, not always the same; a validation takes long.
class Timed final : public test::OneLayerTask {
  public:
    Timed(Parameters& parameters, std::int64_t, test::HandClock clock, std::vector<double>* seconds)
        : test::OneLayerTask(parameters), clock_(std::move(clock)), seconds_(seconds) {}
    Batch batch() override {
        if (!context_.dry()) {
            clock_.move(kLoading);
            seconds_->push_back(kLoading);
        }
        return test::OneLayerTask::batch();
    }
    Loss loss(const Batch& batch) override {
        if (!context_.dry()) {
            const double seconds = 1 + 0.125 * static_cast<double>(seconds_->size() * seconds_->size() % 7);
            clock_.move(seconds);
            seconds_->back() += seconds;
        }
        return test::OneLayerTask::loss(batch);
    }
    Validation validate(const ProgressCallback&) override {
        if (!context_.dry()) clock_.move(100);
        return {.loss = 1};
    }

  private:
    test::HandClock clock_;
    std::vector<double>* seconds_;
};

/// Its batches are there at once.
class Made final : public test::OneLayerTask {
  public:
    Made(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
};

class FiguresOfTime : public ::testing::Test {
  protected:
    /// With validations and saves, which count for nothing.
    TrainerOptions options(std::int64_t steps) {
        TrainerOptions options{.batch = 8,
                               .accumulate = 3,
                               .steps = steps,
                               .validate_every = 4,
                               .save = folder_.path() / "saved",
                               .save_every = 5,
                               .handle_signals = false,
                               .print = false,
                               .units = 5};
        options.values = [clock = clock_]() mutable {
            clock.move(1000);
            return StateValues();
        };
        options.clock = clock_.now();
        return options;
    }
    Report run(const TrainerOptions& options) {
        micro_batches_.clear();
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return Trainer(task<Timed>(clock_, &micro_batches_), options).run(context);
    }
    /// Of the steps of the last run.
    std::vector<double> seconds_of_steps() const {
        std::vector<double> seconds;
        for (std::size_t i = 0; i + 2 < micro_batches_.size(); i += 3)
            seconds.push_back(micro_batches_[i] + micro_batches_[i + 1] + micro_batches_[i + 2]);
        return seconds;
    }
    /// `first`: the steps that warm up.
    void expect_figures(const Report& report, std::int64_t steps, std::int64_t first) {
        const std::vector<double> all = seconds_of_steps();
        ASSERT_EQ(std::ssize(all), steps);
        std::vector<double> counted(all.begin() + first, all.end());
        ASSERT_EQ(counted.size() % 2, 1u) << "a median that is a step";
        EXPECT_NEAR(report.rate * sum_of(counted), static_cast<double>(counted.size() * 3 * 8 * 5), 1e-6);
        EXPECT_NEAR(*report.loading_share, 3 * static_cast<double>(steps) * kLoading / sum_of(all), 1e-9);
        std::sort(counted.begin(), counted.end());
        EXPECT_NEAR(*report.step_seconds, counted[counted.size() / 2], 1e-9);
    }

  private:
    test::ScratchFolder folder_;
    test::HandClock clock_;
    std::vector<double> micro_batches_;
};

TEST_F(FiguresOfTime, RateTimesSecondsIsWhatWasTrained) {
    expect_figures(run(options(9)), 9, 4);
    expect_figures(run(options(31)), 31, 10);
}

TEST_F(FiguresOfTime, AResumedTrainingCountsItsOwnSteps) {
    TrainerOptions part = options(39);
    part.stop_after = 21;
    expect_figures(run(part), 21, 10);
    TrainerOptions rest = options(39);
    rest.resume = rest.save;
    const Report report = run(rest);
    EXPECT_EQ(report.steps, 39);
    expect_figures(report, 18, 9);
}

TEST_F(FiguresOfTime, WaitingForDataIsSaidWhereThereWasSome) {
    const auto printed = [](const std::function<void()>& run) {
        ::testing::internal::CaptureStdout();
        run();
        return ::testing::internal::GetCapturedStdout();
    };
    TrainerOptions told = options(9);
    told.print = true;
    const std::string text = printed([&] { run(told); });
    const std::vector<double> all = seconds_of_steps();
    ASSERT_EQ(all.size(), 9u);
    const double share = 3 * 9 * kLoading / sum_of(all);
    ASSERT_GT(share, 0.05);
    ASSERT_LT(share, 0.25);
    EXPECT_THAT(text, HasSubstr(fmt::format("\nwaiting for data took {:.1f}% of the steps' time\n", 100 * share)));
    const std::string without = printed([&] {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        Trainer(task<Made>(), told).run(context);
    });
    EXPECT_THAT(without, HasSubstr("step 9/9"));
    EXPECT_THAT(without, Not(HasSubstr("waiting for data")));
}

TEST_F(FiguresOfTime, WithoutAStepThereAreNone) {
    run(options(3));
    TrainerOptions ended = options(3);
    ended.resume = ended.save;
    const Report report = run(ended);
    EXPECT_EQ(report.rate, 0);
    EXPECT_FALSE(report.step_seconds);
    EXPECT_FALSE(report.loading_share);
    EXPECT_FALSE(report.train_loss);
}

/// In some of its steps the loss is no number, in every other of these its gradient alone.
class Overflowing final : public test::OneLayerTask {
  public:
    Overflowing(Parameters& parameters, std::int64_t, std::set<std::int64_t> steps)
        : test::OneLayerTask(parameters), steps_(std::move(steps)) {}
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        if (context_.dry() || !steps_.contains(++step_)) return Loss(sum, 1);
        return Loss(step_ % 2 == 0 ? sum + std::numeric_limits<double>::infinity() : sum + sqrt(sum * 0.0), 1);
    }

  private:
    std::set<std::int64_t> steps_;
    std::int64_t step_ = 0;
};

TEST(FiguresOfLosses, TheTrainLossIsTheMeanOfTheLastHundredStepsThatWereFinite) {
    const std::set<std::int64_t> overflowing{40, 41, 75, 111, 130};
    TrainerOptions options{.steps = 130, .autocast = Dtype::f16, .handle_signals = false, .print = false};
    Trainer trainer(task<Overflowing>(overflowing), options);
    std::vector<optim::StepResult> results;
    trainer.after_step([&](const Step& step) {
        results.push_back(step.result);
        EXPECT_EQ(step.number, std::ssize(results));
    });
    Context context = Context::cpu({.threads = 1, .seed = 5});
    const Report report = trainer.run(context);
    ASSERT_EQ(results.size(), 130u);
    std::vector<double> finite;
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (results[i].finite) finite.push_back(results[i].loss);
        EXPECT_TRUE(!overflowing.contains(static_cast<std::int64_t>(i) + 1) || results[i].skipped) << i;
    }
    ASSERT_GT(finite.size(), 100u);
    ASSERT_LE(finite.size(), 125u);
    EXPECT_NE(finite.front(), finite.back());
    const std::vector<double> last(finite.end() - 100, finite.end());
    EXPECT_NEAR(*report.train_loss, sum_of(last) / 100, 1e-12 * std::abs(sum_of(last)));
}

/// Where neither time nor progress asks for a look, one comes before results would be lost.
TEST(FiguresOfLosses, EachStepIsToldHoweverSeldomItIsLookedAt) {
    test::HandClock still;
    constexpr std::int64_t steps = 20 * (Session::kKeptResults + 25);
    TrainerOptions options{.steps = steps, .schedule = {.peak = 1e-3}, .handle_signals = false, .print = false};
    options.clock = still.now();
    Trainer trainer(task<Overflowing>(std::set<std::int64_t>()), options);
    std::int64_t told = 0;
    double last = 0;
    trainer.after_step([&](const Step& step) {
        EXPECT_EQ(step.number, ++told);
        EXPECT_NE(step.result.loss, std::exchange(last, step.result.loss)) << step.number;
    });
    Context context = Context::cpu({.threads = 1, .seed = 5});
    trainer.run(context);
    EXPECT_EQ(told, steps);
}

/// A table of so many rows.
class Wide final : public test::OneLayerTask {
  public:
    Wide(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {
        parameters.create("table", {kRows, 3}, nn::init::ones());
    }
    static constexpr std::int64_t kRows = 100'000;
};

TEST(FiguresOfMemory, AreTheSizesOfTheModelAndOfItsOptimizersState) {
    const auto forecast = [](const MakeOptimizer& optimizer, double average) {
        const TrainerOptions options{.steps = 2, .optimizer = optimizer, .average = average, .print = false};
        return Trainer(task<Wide>(), options).rehearse(Profile{.threads = 1});
    };
    constexpr std::size_t bytes = sizeof(float) * (3 * Wide::kRows + 2 + 1), more = 10'000;
    const auto expect = [&](const Forecast& forecast, std::size_t states) {
        EXPECT_EQ(forecast.parameters, 3 * Wide::kRows + 2 + 1);
        EXPECT_GE(forecast.parameter_bytes, bytes);
        EXPECT_LE(forecast.parameter_bytes, bytes + more);
        EXPECT_GE(forecast.optimizer_state_bytes, states * bytes);
        EXPECT_LE(forecast.optimizer_state_bytes, states * bytes + (states + 1) * more);
        EXPECT_EQ(forecast.resident_bytes(), forecast.parameter_bytes + forecast.optimizer_state_bytes);
    };
    expect(forecast(sgd({.momentum = 0}), 0), 0);
    expect(forecast(sgd({.momentum = 0.9}), 0), 1);
    expect(forecast(adamw(), 0), 2);
    expect(forecast(adamw(), 0.5), 3);
}

}  // namespace figures_test
}  // namespace headroom::training
