// A signal in a step of several processes: their last whole step is saved before the next one ends.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/hand_clock.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/internal/last_step.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace last_step_test {

using ::testing::HasSubstr;

/// Called in each micro-batch, with the number of those before.
using Meanwhile = std::function<void(std::int64_t)>;

class Watched final : public test::OneLayerTask {
  public:
    Watched(Parameters& parameters, std::int64_t, Meanwhile meanwhile)
        : test::OneLayerTask(parameters), meanwhile_(std::move(meanwhile)) {}
    Loss loss(const Batch& batch) override {
        if (!context_.dry()) meanwhile_(static_cast<std::int64_t>(context_.random_counter()));
        return test::OneLayerTask::loss(batch);
    }

  private:
    Meanwhile meanwhile_;
};

TrainerOptions steps_of(int ranks) {
    return {.accumulate = ranks, .steps = 4, .handle_signals = false, .print = false};
}

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Until there is such a file; whether there is, after ten minutes.
bool appears(const std::string& file) {
    for (int i = 0; i < 60000 && !std::filesystem::exists(file); ++i) sleep(0.01);
    return std::filesystem::exists(file);
}

/// Of the state after so many steps.
std::string state_after(std::int64_t steps, const std::string& file) {
    std::string state;
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        TrainerOptions options = steps_of(2);
        options.resume = file;
        Session session(context, task<Watched>(Meanwhile([](std::int64_t) {})), options);
        while (session.steps_done() < steps) session.step();
        if (group->rank() == 0) state = session.state_sha256();
    });
    return state;
}

/// Two ranks whose first one gets a signal in the step behind `whole` ones, each of them a long one: the file that is
/// there in that step, and what is there in the end.
void signal_behind(std::int64_t whole, const std::string& saved, const std::string& meanwhile) {
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        const bool first = group->rank() == 0;
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        TrainerOptions options = steps_of(2);
        options.save = saved;
        options.handle_signals = first;
        const auto work = [&](std::int64_t micro_batch) {
            if (!first) return;
            if (micro_batch / 2 < whole) return sleep(0.5);
            std::raise(SIGTERM);
            if (appears(saved)) std::filesystem::copy_file(saved, meanwhile);
        };
        const Report report = Trainer(task<Watched>(Meanwhile(work)), options).run(context);
        EXPECT_EQ(report.steps, whole + 1);
        EXPECT_FALSE(report.complete);
    });
}

TEST(LastStep, IsSavedWhileTheNextOneComputes) {
    for (const std::int64_t whole : {0, 1, 2}) {
        const test::ScratchFolder folder;
        const std::string saved = folder.path() / "saved", meanwhile = folder.path() / "meanwhile";
        signal_behind(whole, saved, meanwhile);
        ASSERT_TRUE(std::filesystem::exists(meanwhile)) << whole;
        EXPECT_EQ(state_after(whole, meanwhile), state_after(whole, "")) << whole;
        EXPECT_EQ(state_after(4, meanwhile), state_after(4, "")) << whole;
        // In the end the file is that of the step which went on.
        EXPECT_EQ(state_after(whole + 1, saved), state_after(whole + 1, "")) << whole;
        EXPECT_NE(state_after(whole, saved), state_after(whole, "")) << whole;
    }
}

TEST(LastStep, AValidationIsLongWhateverStepsTake) {
    class Validating final : public test::OneLayerTask {
      public:
        Validating(Parameters& parameters, std::int64_t, std::string saved, bool* found)
            : test::OneLayerTask(parameters), saved_(std::move(saved)), found_(found) {}
        Validation validate(const ProgressCallback&) override {
            if (!context_.dry() && context_.group()->rank() == 0) {
                std::raise(SIGTERM);
                *found_ = appears(saved_);
            }
            return {.loss = 1};
        }
        std::int64_t validation_batches() const override { return 1; }

      private:
        std::string saved_;
        bool* found_;
    };
    const test::ScratchFolder folder;
    const std::string saved = folder.path() / "saved";
    bool found = false;
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        TrainerOptions options = steps_of(2);
        options.save = saved;
        options.validate_every = 2;
        options.handle_signals = group->rank() == 0;
        EXPECT_EQ(Trainer(task<Validating>(saved, &found), options).run(context).steps, 2);
    });
    EXPECT_TRUE(found);
}

/// Of steps and what they take by a clock that only this moves: the step that a signal behind them finds in the file.
/// `copying`: what a copy takes.
std::string kept_behind(const std::vector<double>& seconds, double copying = 0) {
    const test::ScratchFolder folder;
    const std::string saved = folder.path() / "saved";
    test::HandClock clock;
    TrainerOptions options = steps_of(1);
    options.values = [clock, copying]() mutable {
        clock.move(copying);
        return StateValues();
    };
    Context context = Context::cpu({.threads = 1, .seed = 5});
    Session session(context, task<Watched>(Meanwhile([](std::int64_t) {})), options);
    const Interrupt interrupt;
    LastStep last(session, saved, interrupt, clock.now());
    for (const double step : seconds) {
        session.step();
        clock.move(step);
        last.keep(step);
    }
    std::raise(SIGTERM);
    return appears(saved) ? files::SafetensorsFile(saved).metadata().at("steps") : "none";
}

TEST(LastStep, IsKeptBehindALongOneAndNowAndThenBehindShortOnes) {
    EXPECT_EQ(kept_behind({0.4}), "1");
    EXPECT_EQ(kept_behind({0.4, 0.4}), "2");
    EXPECT_EQ(kept_behind({0.1, 0.1}), "0");
    EXPECT_EQ(kept_behind({0.1, 0.1, 0.15}), "3");
    EXPECT_EQ(kept_behind({0.1, 0.1, 0.15, 0.1, 0.1}), "3");
    EXPECT_EQ(kept_behind({0.1, 0.1, 0.15, 0.1, 0.1, 0.15}), "6");
    EXPECT_EQ(kept_behind({0.4, 0.1}), "1");
    // Copies that take 0.02 s are a second apart.
    EXPECT_EQ(kept_behind({0.25, 0.25, 0.25}, 0.02), "0");
    EXPECT_EQ(kept_behind({0.25, 0.25, 0.25, 0.26}, 0.02), "4");
    EXPECT_EQ(kept_behind({0.25, 0.4}, 0.02), "2");
}

/// The first long step behind short ones, in which a signal finds a copy of a step before the last one.
TEST(LastStep, OfShortOnesOneIsSavedThatGoesOnToTheSameBits) {
    const test::ScratchFolder folder;
    const std::string saved = folder.path() / "saved", meanwhile = folder.path() / "meanwhile";
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        const bool first = group->rank() == 0;
        test::HandClock clock;
        TrainerOptions options = steps_of(2);
        options.save = saved;
        options.handle_signals = first;
        options.clock = clock.now();
        const auto work = [&](std::int64_t micro_batch) {
            if (!first) return;
            if (micro_batch / 2 < 3) return clock.move(0.2);
            std::raise(SIGTERM);
            if (appears(saved)) std::filesystem::copy_file(saved, meanwhile);
        };
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        Trainer(task<Watched>(Meanwhile(work)), options).run(context);
    });
    ASSERT_TRUE(std::filesystem::exists(meanwhile));
    EXPECT_EQ(files::SafetensorsFile(meanwhile).metadata().at("steps"), "2");
    EXPECT_EQ(state_after(2, meanwhile), state_after(2, ""));
    EXPECT_EQ(state_after(4, meanwhile), state_after(4, ""));
    EXPECT_EQ(files::SafetensorsFile(saved).metadata().at("steps"), "4");
}

TEST(LastStep, WhatIsNotKeptIsSaid) {
    const test::ScratchFolder folder;
    for (const Shard shard : {Shard::none, Shard::state}) {
        ::testing::internal::CaptureStdout();
        dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
            Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
            TrainerOptions options = steps_of(2);
            options.shard = shard;
            options.save = folder.path() / "saved";
            options.handle_signals = group->rank() == 0;
            options.print = true;
            Trainer(task<Watched>(Meanwhile([](std::int64_t) {})), options).run(context);
        });
        const std::string text = ::testing::internal::GetCapturedStdout();
        const char* const line =
            "(mpirun: after 2 s) loses what .save_every has not saved: send SIGINT to one process, or give "
            "mpirun --mca odls_base_sigkill_timeout 60";
        EXPECT_EQ(text.find(line) != std::string::npos, shard == Shard::state) << text;
    }
}

TEST(LastStep, OfAStateThatIsTooLargeNoneIsKept) {
    class Large final : public test::OneLayerTask {
      public:
        Large(Parameters& parameters, std::int64_t elements) : test::OneLayerTask(parameters) {
            parameters.create("large", {elements}, nn::init::ones());
        }
    };
    const std::int64_t room = LastStep::kMostBytes / 12;  // a number and its two moments
    for (const std::int64_t elements : {room - 100000, room + 100000}) {
        rehearse(Profile{}, [&](Context& dry) {
            TrainerOptions options = steps_of(1);
            options.batch = elements;
            const Session session(dry, task<Large>(), options);
            EXPECT_EQ(LastStep::keeps(session), elements < room) << elements;
        });
    }
}

}  // namespace last_step_test
}  // namespace headroom::training
