// What a task tells of its training steps beside their loss: in results, logs, on the terminal, and nowhere else.
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace step_figures_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The loss has two parts: the square of the layer's output, and a tenth of it as "penalty". Its validations call
/// `loss`, too.
class TwoParts final : public test::OneLayerTask {
  public:
    TwoParts(Parameters& parameters, std::int64_t, std::vector<std::string> names = {"square", "penalty"},
             std::int64_t broken = -1)
        : test::OneLayerTask(parameters), names_(std::move(names)), broken_(broken) {}
    void begin_step(std::int64_t steps_done) override { step_ = steps_done; }
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        const Tensor part = square(sum), penalty = part * 0.1;
        figure("square", Loss(part, 1));
        figure("penalty", Loss(penalty, 1));
        const Tensor loss = part + penalty;
        return Loss(step_ == broken_ ? log(loss * -1.0) : loss, 1);
    }
    std::vector<std::string> figures() const override { return names_; }
    Validation validate(const ProgressCallback&) override { return {.loss = loss(batch()).sum().item()}; }

  private:
    std::vector<std::string> names_;
    std::int64_t broken_, step_ = -1;
};

TEST(TaskFigures, AreInResultsAndLogsOfEachStep) {
    const test::ScratchFolder folder;
    TrainerOptions options{
        .accumulate = 2, .steps = 3, .validate_every = 1, .handle_signals = false, .log = folder.path() / "log"};
    std::vector<std::vector<double>> told;
    Trainer trainer(task<TwoParts>(), options);
    trainer.after_step([&](const Step& step) {
        ASSERT_EQ(step.result.figures.size(), 2u);
        EXPECT_EQ(step.result.figures[1].name, "penalty");
        told.push_back({step.result.loss, step.result.figures[0].value, step.result.figures[1].value});
    });
    ::testing::internal::CaptureStdout();
    Context context = Context::cpu({.threads = 1, .seed = 3});
    trainer.run(context);
    const std::string printed = ::testing::internal::GetCapturedStdout();
    ASSERT_EQ(told.size(), 3u);
    std::vector<std::vector<double>> logged;
    std::ifstream log(options.log);
    for (std::string line; std::getline(log, line);) {
        const nlohmann::json figures = nlohmann::json::parse(line);
        if (figures.contains("train/loss"))
            logged.push_back({figures["train/loss"], figures["train/square"], figures["train/penalty"]});
        else
            EXPECT_FALSE(figures.contains("validation/square"));
    }
    EXPECT_EQ(logged, told);
    for (const std::vector<double>& step : told) {
        EXPECT_GT(step[1], 0);
        EXPECT_THAT(step[2], DoubleNear(step[1] / 10, 1e-7 * step[1]));
        EXPECT_THAT(step[0], DoubleNear(step[1] + step[2], 1e-7 * step[0]));
    }
    const std::string last = fmt::format("square {:.4f}", told.back()[1]);
    EXPECT_THAT(printed, HasSubstr(last)) << "behind the other parts of the line, where there is room";
}

TEST(TaskFigures, ChangeNothingOfTheTraining) {
    class Silent final : public test::OneLayerTask {
      public:
        Silent(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
        Loss loss(const Batch& batch) override {
            const Tensor part = square(test::OneLayerTask::loss(batch).sum());
            return Loss(part + part * 0.1, 1);
        }
    };
    std::vector<std::string> states;
    for (const MakeTask& make : {task<Silent>(), task<TwoParts>()}) {
        Context context = Context::cpu({.threads = 1, .seed = 3});
        const Report report = Trainer(make, {.steps = 3, .handle_signals = false, .print = false}).run(context);
        states.push_back(report.state_sha256);
        EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    }
    EXPECT_EQ(states[0], states[1]);
}

TEST(TaskFigures, AStepThatIsExplainedTellsNoneAgain) {
    Context context = Context::cpu({.threads = 1});
    Session session(context, task<TwoParts>(std::vector<std::string>{"square", "penalty"}, std::int64_t{1}),
                    {.steps = 9});
    for (int step = 0; step < 3; ++step) session.step();
    EXPECT_THAT([&] { session.results(); }, ThrowsMessage<Error>(HasSubstr("step 2: the loss is not finite")));
}

TEST(TaskFigures, NamesThatAreUnknownTakenOrTwiceAreRefused) {
    const auto train = [](const std::vector<std::string>& names) {
        Context context = Context::cpu({.threads = 1});
        Session(context, task<TwoParts>(names, std::int64_t{-1}), {.steps = 1}).step();
    };
    EXPECT_THAT([&] { train({"square"}); }, ThrowsMessage<Error>(HasSubstr("unknown figure \"penalty\"")));
    EXPECT_THAT([&] { train({}); }, ThrowsMessage<Error>(HasSubstr("the options name none")));
    EXPECT_THAT(
        [&] {
            train({"square", "penalty", "loss"});
        },
        ThrowsMessage<Error>(HasSubstr("a task can't name a figure \"loss\"")));
    EXPECT_THAT(
        [&] {
            train({"square", "square"});
        },
        ThrowsMessage<Error>(HasSubstr("two figures have the name \"square\"")));
}

TEST(TaskFigures, AreTheSameForAnyNumberOfRanksWhichHaveTheSameNames) {
    std::vector<std::vector<double>> told;
    for (const int ranks : {1, 2, 3}) {
        std::vector<double>& penalties = told.emplace_back();
        dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
            Context context = Context::cpu({.threads = 1, .seed = 3, .group = group});
            Session session(context, task<TwoParts>(), {.accumulate = 3, .steps = 2, .shard = Shard::gradients});
            for (int step = 0; step < 2; ++step) session.step();
            const std::vector<optim::StepResult> results = session.results();
            if (group->rank() != 0) return;
            for (const optim::StepResult& result : results) penalties.push_back(result.figures.at(1).value);
        });
        EXPECT_EQ(penalties, told.front()) << ranks;
        EXPECT_EQ(penalties.size(), 2u);
    }
    const auto other_names = [](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .group = group});
        std::vector<std::string> names{"square", "penalty"};
        if (group->rank() == 1) names.emplace_back("kl");
        Session(context, task<TwoParts>(names, std::int64_t{-1}), {.accumulate = 2, .steps = 1});
    };
    EXPECT_THAT([&] { dist::run_ranks(2, other_names); }, ThrowsMessage<Error>(HasSubstr("figures: process 1 has")));
}

}  // namespace step_figures_test
}  // namespace headroom::training
