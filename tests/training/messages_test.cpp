// What a training prints names the step that it is about, and the time that is left is that of the steps that are left:
// by a clock that stands still or that the task moves, so that steps are looked at late.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/hand_clock.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace messages_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Broken : std::uint8_t { nothing, loss, gradient };

/// Asked before each of its micro-batches, which are counted from 0.
using Script = std::function<Broken(std::int64_t micro_batch)>;

class Scripted final : public test::OneLayerTask {
  public:
    Scripted(Parameters& parameters, std::int64_t, Script script)
        : test::OneLayerTask(parameters), script_(std::move(script)) {}
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        const Broken broken = context_.dry() ? Broken::nothing : script_(calls_++);
        if (broken == Broken::loss) return Loss(sum + kInfinity, 1);
        if (broken == Broken::gradient) return Loss(sum + sqrt(sum * 0.0), 1);
        return Loss(sum, 1);
    }
    /// Validations come to the same loss.
    Validation validate(const ProgressCallback&) override { return {.loss = 1}; }

  private:
    Script script_;
    std::int64_t calls_ = 0;
};

TrainerOptions usual(const test::HandClock& clock) {
    TrainerOptions options{.accumulate = 2, .steps = 80, .handle_signals = false, .print = false};
    options.clock = clock.now();
    return options;
}

Report run(const TrainerOptions& options, const Script& script) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    return Trainer(task<Scripted>(script), options).run(context);
}

const Script kUsual = [](std::int64_t) { return Broken::nothing; };

TEST(Messages, NameTheStepThatIsNotFiniteHoweverLateItIsSeen) {
    const test::ScratchFolder folder;
    for (const std::int64_t before : {0, 30}) {
        TrainerOptions options = usual({});
        if (before > 0) {
            TrainerOptions part = options;
            part.stop_after = before;
            options.resume = part.save = folder.path() / "part";
            run(part, kUsual);
        }
        for (const Broken broken : {Broken::loss, Broken::gradient}) {
            std::int64_t calls = 0;
            const Script script = [&](std::int64_t micro_batch) {
                calls = micro_batch + 1;
                return micro_batch / 2 + 1 + before == 57 ? broken : Broken::nothing;
            };
            EXPECT_THAT([&] { run(options, script); },
                        ThrowsMessage<Error>(HasSubstr(broken == Broken::loss ? "step 57: the loss is not finite"
                                                                              : "step 57: the gradient is not finite")))
                << before;
            EXPECT_GT(calls, 2 * (58 - before)) << "it was looked at before the next step";
        }
    }
}

TEST(Messages, AskForATaskWhereNoneWasMade) {
    Context context = Context::cpu({.threads = 1});
    Trainer trainer([](Parameters&, std::int64_t) { return nullptr; }, {.steps = 1, .print = false});
    EXPECT_THAT(
        [&] { trainer.run(context); },
        ThrowsMessage<Error>("the function that makes the task returned null; return a std::make_unique of your "
                             "task"));
}

/// Their clocks say to look at other moments; they look at the same ones, and end with the same error.
TEST(Messages, OfRanksWhoseClocksDifferNameOneStep) {
    for (const Shard shard : {Shard::none, Shard::gradients}) {
        std::vector<std::vector<std::int64_t>> looks(3);
        std::vector<std::string> errors(3);
        const auto train = [&](const std::shared_ptr<Group>& group) {
            const auto rank = static_cast<std::size_t>(group->rank());
            test::HandClock clock;
            TrainerOptions options = usual(clock);
            options.accumulate = 4;
            options.shard = shard;
            std::int64_t calls = 0;
            const std::int64_t own = rank == 0 ? 2 : 1;  // micro-batches in a step
            const Script script = [&](std::int64_t micro_batch) {
                calls = micro_batch + 1;
                clock.move(rank == 1 ? 0.6 : 0);
                return rank == 2 && micro_batch == 56 ? Broken::loss : Broken::nothing;
            };
            Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
            Trainer trainer(task<Scripted>(script), options);
            trainer.after_step([&](const Step&) { looks[rank].push_back(calls / own); });
            try {
                trainer.run(context);
            } catch (const Error& error) {
                errors[rank] = error.what();
            }
        };
        dist::run_ranks(3, train);
        EXPECT_THAT(errors[0], HasSubstr("step 57: the loss is not finite"));
        EXPECT_THAT(errors, ElementsAre(errors[0], errors[0], errors[0]));
        EXPECT_GE(looks[0].size(), 48u);
        EXPECT_THAT(looks, ElementsAre(looks[0], looks[0], looks[0]));
        std::int64_t together = 0;
        for (std::size_t step = 1; step < looks[0].size(); ++step) together += looks[0][step] == looks[0][step - 1];
        EXPECT_GT(together, 0) << "each step was looked at alone";
    }
}

class Printed : public ::testing::Test {
  protected:
    /// With an error's text behind it, if one leaves.
    std::string printed(TrainerOptions options, const Script& script,
                        const std::function<void(Trainer&)>& prepare = {}) {
        options.print = true;
        ::testing::internal::CaptureStdout();
        std::string error;
        try {
            Trainer trainer(task<Scripted>(script), options);
            if (prepare) prepare(trainer);
            Context context = Context::cpu({.threads = 1, .seed = 5});
            trainer.run(context);
        } catch (const Error& left) {
            error = left.what();
        }
        return ::testing::internal::GetCapturedStdout() + error;
    }
    std::string path(const std::string& name) const { return folder_.path() / name; }

  private:
    test::ScratchFolder folder_;
};

/// The figures of a line such as "step 12/80  loss 0.1  left 2:16".
struct Line {
    std::int64_t step;
    double left;
};
std::vector<Line> progress_in(const std::string& text) {
    std::vector<Line> lines;
    for (std::size_t at = text.find("step "); at != std::string::npos; at = text.find("step ", at + 1)) {
        const std::string line = text.substr(at, text.find('\n', at) - at);
        const std::size_t slash = line.find('/'), left = line.find("left ");
        if (slash == std::string::npos || left == std::string::npos) continue;
        const std::size_t colon = line.find(':', left);
        lines.push_back(
            {std::stoll(line.substr(5)), 60 * std::stod(line.substr(left + 5)) + std::stod(line.substr(colon + 1))});
    }
    return lines;
}

TEST_F(Printed, TheTimeLeftIsThatOfTheStepsLeftAlsoAfterAResume) {
    test::HandClock clock;
    const Script two_seconds = [&](std::int64_t) {
        clock.move(1);
        return Broken::nothing;
    };
    TrainerOptions part = usual(clock);
    part.stop_after = 50;
    part.save = path("part");
    TrainerOptions rest = usual(clock);
    rest.resume = part.save;
    for (const auto& [options, first] : {std::pair{part, 0}, std::pair{rest, 50}}) {
        clock.move(10'000);
        const std::vector<Line> lines = progress_in(printed(options, two_seconds));
        ASSERT_GE(lines.size(), 5u);
        for (const Line& line : lines) {
            EXPECT_GT(line.step, first);
            EXPECT_EQ(line.left, 2.0 * static_cast<double>(80 - line.step)) << "step " << line.step;
        }
    }
}

TEST_F(Printed, TheEndNamesTheLastStep) {
    TrainerOptions stopped = usual({});
    stopped.handle_signals = true;
    const auto interrupt = [](Trainer& trainer) {
        trainer.after_step([](const Step& step) {
            if (step.number == 7) std::raise(SIGINT);
        });
    };
    EXPECT_THAT(printed(stopped, kUsual, interrupt), HasSubstr("interrupted after step 7; no .save, not saved\n"));
    stopped.save = path("stopped");
    EXPECT_THAT(printed(stopped, kUsual, interrupt), HasSubstr("interrupted after step 7\n"));
    TrainerOptions resumed = stopped;
    resumed.resume = resumed.save;
    resumed.stop_after = 4;
    const std::string text = printed(resumed, kUsual);
    EXPECT_THAT(text, HasSubstr("step 10/80"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("step 13/80")));
    TrainerOptions patient = usual({});
    patient.validate_every = 3;
    patient.patience = 2;
    const std::string ended = printed(patient, kUsual);
    EXPECT_THAT(ended, HasSubstr("step 3: validation loss 1.0000"));
    EXPECT_THAT(ended, HasSubstr("stopped after step 9: 2 validations in a row brought no lower loss\n"));
}

/// As soon as a step is looked at, and not at the next validation.
TEST_F(Printed, NewsAreToldBetweenSteps) {
    std::int64_t asked = 0;
    const std::string text = printed(usual({}), kUsual, [&](Trainer& trainer) {
        trainer.news([&] {
            return ++asked == 3 ? std::vector<std::string>{"one", "two"} : std::vector<std::string>();
        });
    });
    const std::size_t told = text.find("\none\ntwo\n");
    ASSERT_NE(told, text.npos) << text;
    EXPECT_LT(told, text.find("step 4/80"));
}

/// Each validation counts once: that behind the last step is often one of the others.
TEST_F(Printed, ValidationsThatAreMostOfTheWorkAreAnnounced) {
    class WithValidation final : public test::OneLayerTask {
      public:
        WithValidation(Parameters& parameters, std::int64_t, std::int64_t batches)
            : test::OneLayerTask(parameters), batches_(batches) {}
        std::int64_t validation_batches() const override { return batches_; }

      private:
        std::int64_t batches_;
    };
    const auto announced = [&](std::int64_t every, std::int64_t batches, std::int64_t done = 0,
                               std::int64_t stop = -1) {
        TrainerOptions options{.steps = 20, .validate_every = every, .handle_signals = false, .print = false};
        const auto run = [&] {
            Context context = Context::cpu({.threads = 1});
            ::testing::internal::CaptureStdout();
            Trainer(task<WithValidation>(batches), options).run(context);
            const std::string text = ::testing::internal::GetCapturedStdout();
            const std::size_t begin = text.find("the training takes ");
            return begin == text.npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
        };
        if (done > 0) {
            options.save = path("done");
            options.stop_after = done;
            run();
            options.resume = std::exchange(options.save, "");
        }
        options.stop_after = stop;
        options.print = true;
        return run();
    };
    EXPECT_EQ(announced(0, 21), "the training takes 20 batches, and its validation 21");
    EXPECT_EQ(announced(0, 20), "");
    EXPECT_EQ(announced(20, 15), "") << "one validation";
    EXPECT_EQ(announced(20, 21), "the training takes 20 batches, and its validation 21");
    EXPECT_EQ(announced(10, 11), "the training takes 20 batches, each validation 11");
    EXPECT_EQ(announced(10, 10), "");
    EXPECT_EQ(announced(15, 11), "the training takes 20 batches, each validation 11");
    EXPECT_EQ(announced(10, 11, 10), "the training takes 10 batches, and its validation 11");
    EXPECT_EQ(announced(10, 8, 5), "the training takes 15 batches, each validation 8") << "behind steps 10 and 20";
    EXPECT_EQ(announced(10, 11, 5, 5), "the training takes 5 batches, and its validation 11");
    EXPECT_EQ(announced(10, 11, 5, 4), "") << "it ends before";
    EXPECT_EQ(announced(10, 11, 20), "the training takes 0 batches, and its validation 11");
}

/// A signal in a step of several processes finds the step before, whose copy is written while this one goes on.
TEST_F(Printed, WhatIsSavedInAStepIsNamedByTheStepBefore) {
    const std::string saved = path("saved");
    ::testing::internal::CaptureStdout();
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        const bool first = group->rank() == 0;
        test::HandClock clock;
        TrainerOptions options = usual(clock);
        options.print = first;
        options.handle_signals = first;
        options.save = saved;
        const Script script = [&](std::int64_t micro_batch) {
            clock.move(10);  // so that steps are long
            if (!first || micro_batch != 3) return Broken::nothing;
            std::raise(SIGTERM);
            for (int i = 0; i < 60000 && !std::filesystem::exists(saved); ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            return Broken::nothing;
        };
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        EXPECT_EQ(Trainer(task<Scripted>(script), options).run(context).steps, 4);
    });
    const std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(
        text, HasSubstr("interrupted; saved to " + saved + " the state after step 3, while the next one continues\n"));
    EXPECT_THAT(text, HasSubstr("interrupted after step 4\n"));
}

}  // namespace messages_test
}  // namespace headroom::training
