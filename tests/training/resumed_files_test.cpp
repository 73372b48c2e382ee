// Files of a training on its way: what one that was saved at a validation knows of it, how a log goes on, and what is
// in it where a training ends early.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace resumed_files_test {

using ::testing::ElementsAre;

/// Its validations come to these losses.
class Validated final : public test::OneLayerTask {
  public:
    Validated(Parameters& parameters, std::int64_t, std::vector<double> losses)
        : test::OneLayerTask(parameters), losses_(std::move(losses)) {}
    Validation validate(const ProgressCallback&) override {
        return {.loss = context_.dry() ? 0 : losses_.at(validations_++)};
    }

  private:
    std::vector<double> losses_;
    std::size_t validations_ = 0;
};

/// Draws in each loss and each validation, one of which may not be read to its end.
class Noisy final : public test::OneLayerTask {
  public:
    Noisy(Parameters& parameters, std::int64_t, const bool* broken) : test::OneLayerTask(parameters), broken_(broken) {}
    Loss loss(const Batch& batch) override {
        return Loss(test::OneLayerTask::loss(batch).sum() * sum(randn(context_, {1})), 1);
    }
    Validation validate(const ProgressCallback&) override {
        const Tensor drawn = randn(context_, {1});
        if (!context_.dry() && *broken_) throw FileError("a.jpg: damaged");
        return {.loss = 1};
    }

  private:
    const bool* broken_;
};

/// Its batches behind the first ones can't be read.
class Cut final : public test::OneLayerTask {
  public:
    Cut(Parameters& parameters, std::int64_t, std::int64_t whole) : test::OneLayerTask(parameters), whole_(whole) {}
    Batch batch() override {
        if (!context_.dry() && whole_-- == 0) throw FileError("a.jpg: damaged");
        return test::OneLayerTask::batch();
    }

  private:
    std::int64_t whole_;
};

class ResumedFiles : public ::testing::Test {
  protected:
    std::string path(const char* name) const { return folder_.path() / name; }
    static Report run(Trainer trainer) {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return trainer.run(context);
    }
    static std::vector<std::int64_t> steps_in(const std::string& file) {
        std::ifstream log(file);
        std::vector<std::int64_t> steps;
        for (std::string line; std::getline(log, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
        return steps;
    }
    static TrainerOptions usual(std::int64_t steps) {
        return {.steps = steps, .schedule = {.peak = 1e-3}, .handle_signals = false, .print = false};
    }

  private:
    test::ScratchFolder folder_;
};

/// Or else the next validation after a resume would be the best one, whatever it came to.
TEST_F(ResumedFiles, WhatIsSavedWhereItIsValidatedKnowsTheBest) {
    TrainerOptions options = usual(8);
    options.validate_every = 2;
    options.save = path("saved");
    options.save_every = 2;
    Trainer trainer(task<Validated>(std::vector{3.0, 2.0, 4.0, 5.0}), options);
    std::vector<std::string> told;  // by the file that is there at a validation: that of the step before
    trainer.after_validation([&](const ValidatedStep& step) {
        if (step.number == 2) return;
        const auto values = files::SafetensorsFile(options.save).metadata();
        const auto since = values.find("validations_since_best");
        told.push_back(values.at("steps") + ": " + values.at("best_validation_loss") + ", " +
                       (since == values.end() ? "0" : since->second));
    });
    run(trainer);
    EXPECT_THAT(told, ElementsAre("2: 3, 0", "4: 2, 0", "6: 2, 1"));
}

TEST_F(ResumedFiles, WhatIsSavedBehindAValidationThatCanNotBeReadGoesOnWithTheSameDraws) {
    TrainerOptions options = usual(5);
    options.validate_every = 2;
    bool broken = false;
    const MakeTask task = training::task<Noisy>(&broken);
    const std::string whole = run({task, options}).state_sha256;
    TrainerOptions rest = options;
    options.save = rest.resume = path("saved");
    broken = true;
    EXPECT_THROW(run({task, options}), UnreadableBatch);
    broken = false;
    EXPECT_EQ(files::SafetensorsFile(rest.resume).metadata().at("steps"), "2");
    EXPECT_EQ(run({task, rest}).state_sha256, whole);
}

/// As a full disk, or a machine that stops, may leave it.
TEST_F(ResumedFiles, ALogGoesOnBehindItsLastWholeLine) {
    TrainerOptions options = usual(6);
    options.log = path("log");
    options.save = path("saved");
    options.stop_after = 3;
    const MakeTask task = training::task<Validated>(std::vector{1.0});
    run({task, options});
    std::filesystem::resize_file(options.log, std::filesystem::file_size(options.log) - 1);  // the end of step 3's
    options.resume = options.save;
    options.stop_after = -1;
    run({task, options});
    EXPECT_THAT(steps_in(options.log), ElementsAre(1, 2, 4, 5, 6, 6));
}

/// Those that were not due to be looked at, too: results are read together, here every fifth step behind the first ten.
TEST_F(ResumedFiles, ALogHasAllStepsBeforeABatchThatCanNotBeRead) {
    TrainerOptions options = usual(100);
    options.clock = [] { return Moment(); };
    for (const std::int64_t whole : {0, 7, 12, 14}) {
        options.log = path("log");
        options.save = path("saved");
        EXPECT_THROW(run({task<Cut>(whole), options}), UnreadableBatch);
        std::vector<std::int64_t> steps(static_cast<std::size_t>(whole));
        std::iota(steps.begin(), steps.end(), 1);
        EXPECT_EQ(steps_in(options.log), steps);
        EXPECT_EQ(files::SafetensorsFile(options.save).metadata().at("steps"), std::to_string(whole));
    }
}

}  // namespace resumed_files_test
}  // namespace headroom::training
