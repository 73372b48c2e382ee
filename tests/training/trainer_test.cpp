// A training from its options to its figures: how long, in which order, resumed to the bit, ended early, in the memory
// that was predicted.
#include <headroom/training/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/endless_task.hpp>

namespace headroom::training {
namespace trainer_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Points = data::MemoryDataset<std::int32_t>;

constexpr std::int64_t kBatch = 8;

/// Points of three classes, by their largest coordinate.
Points points(std::int64_t count, std::uint32_t seed) {
    std::vector<float> features;
    std::vector<std::int32_t> labels;
    std::uint32_t random = seed;
    for (std::int64_t i = 0; i < count; ++i) {
        std::int32_t largest = 0;
        for (std::int32_t k = 0; k < 3; ++k) {
            random = random * 1664525u + 1013904223u;
            features.push_back(static_cast<float>(random >> 8) / static_cast<float>(1 << 24));
            if (features.back() > features[static_cast<std::size_t>(3 * i + largest)]) largest = k;
        }
        labels.push_back(largest);
    }
    return {features, {3}, labels};
}

class Net final : public DataTask<Points> {
  public:
    Net(Parameters& parameters, std::int64_t batch, const Points& training, const Points& validation, int width)
        : DataTask(parameters, shuffled(training, validation, batch, 7)),
          hidden_(nn::Path(parameters) / "hidden", 3, width),
          drop_(nn::Path(parameters) / "drop", 0.2),
          out_(nn::Path(parameters) / "out", width, 3) {}
    Loss loss(const Batch& batch) override { return cross_entropy(logits(batch), batch[1]); }
    Validation validate(const ProgressCallback& watch) override {
        MeanLoss mean;
        Accuracy accuracy;
        each_validation_batch(watch, std::tie(mean, accuracy), [&](const Batch& batch, const Points::Batch&) {
            const Tensor given = logits(batch);
            mean.add(cross_entropy(given, batch[1]));
            accuracy.add(given, batch[1]);
        });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}};
    }
    std::string describe() const override { return R"({"model": {"width": 16}})"; }

  private:
    Tensor logits(const Batch& batch) {
        const RegionScope region(context(), context().module_path("body"));
        return out_(drop_(relu(hidden_(batch[0]))));
    }

    nn::Linear hidden_;
    nn::Dropout drop_;
    nn::Linear out_;
};

class TrainerTest : public ::testing::Test {
  protected:
    std::string path(const std::string& name) const { return folder_.path() / name; }
    /// 20 micro-batches in an epoch.
    MakeTask net(int width = 16) const { return task<Net>(training_, validation_, width); }
    TrainerOptions options() const {
        return {.batch = kBatch,
                .epochs = 3,
                .optimizer = adamw({.weight_decay = 0}),
                .schedule = {.decay = optim::Decay::cosine, .peak = 0.1, .warmup_steps = 3},
                .print = false};
    }
    Report run(const TrainerOptions& options) const {
        Trainer trainer(net(), options);
        return run(trainer);
    }
    static Report run(Trainer& trainer) {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return trainer.run(context);
    }

  private:
    Points training_ = points(20 * kBatch + 3, 1), validation_ = points(3 * kBatch + 5, 2);
    test::ScratchFolder folder_;
};

TEST_F(TrainerTest, LearnsInThePredictedMemory) {
    const Report report = run(options());
    EXPECT_TRUE(report.complete);
    EXPECT_EQ(report.steps, 60);
    EXPECT_EQ(report.forecast.steps, 60);
    EXPECT_EQ(report.forecast.parameters, 3 * 16 + 16 + 16 * 3 + 3);
    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    EXPECT_EQ(report.peak_bytes_reserved, report.forecast.peak.reserved);
    ASSERT_TRUE(report.validation);
    EXPECT_LT(report.validation->loss, 0.6);  // log(3) = 1.1 by chance
    EXPECT_GT(report.validation->metrics.at(0).value, 0.7);
    EXPECT_LT(*report.train_loss, 1);
    EXPECT_GT(report.rate, 0);
    EXPECT_EQ(report.signal, 0);
    EXPECT_EQ(report.state_sha256.size(), 64u);
}

TEST_F(TrainerTest, HooksSeeStepsAndTheValidationsOfEpochs) {
    TrainerOptions options = this->options();
    options.accumulate = 2;
    Trainer trainer(net(), options);
    std::vector<std::int64_t> steps, validations;
    std::vector<double> rates, losses;
    std::size_t best = 0;
    trainer.after_step([&](const Step& step) {
        steps.push_back(step.number);
        rates.push_back(step.learning_rate);
        EXPECT_FALSE(step.result.skipped);
    });
    trainer.after_validation([&](const ValidatedStep& step) {
        validations.push_back(step.number);
        losses.push_back(step.validation.loss);
        best += step.best ? 1 : 0;
    });
    const Report report = run(trainer);
    std::vector<std::int64_t> all(30);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(steps, all);
    EXPECT_THAT(validations, ElementsAre(10, 20, 30));
    EXPECT_EQ(report.validation->loss, losses.back());
    EXPECT_GT(best, 0u);
    EXPECT_DOUBLE_EQ(rates[0], 0.1 / 4);
    EXPECT_DOUBLE_EQ(rates[3], 0.1);
    EXPECT_LT(rates.back(), 0.005);
}

TEST_F(TrainerTest, AResumedTrainingHasTheBitsOfAWholeOne) {
    TrainerOptions options = this->options();
    options.accumulate = 2;
    const Report whole = run(options);
    for (const std::int64_t after : {1, 13}) {
        TrainerOptions part = options;
        part.save = path("part.safetensors");
        part.stop_after = after;
        const Report stopped = run(part);
        EXPECT_FALSE(stopped.complete);
        EXPECT_EQ(stopped.steps, after);
        EXPECT_FALSE(stopped.validation);
        TrainerOptions rest = options;
        rest.resume = part.save;
        const Report resumed = run(rest);
        EXPECT_EQ(resumed.steps, 30);
        EXPECT_EQ(resumed.state_sha256, whole.state_sha256);
        EXPECT_EQ(resumed.validation->loss, whole.validation->loss);
        EXPECT_EQ(resumed.peak_bytes_allocated, resumed.forecast.peak.allocated);
        rest.accumulate = 4;
        EXPECT_THAT([&] { run(rest); }, ThrowsMessage<Error>(HasSubstr("accumulate 2, not 4")));
        rest = part;
        rest.resume = part.save;
        rest.name = "another";
        EXPECT_THROW(run(rest), Error);
    }
}

TEST_F(TrainerTest, ASignalEndsItAfterItsStep) {
    const std::string whole = run(options()).state_sha256;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        TrainerOptions options = this->options();
        options.save = path("interrupted.safetensors");
        Trainer trainer(net(), options);
        trainer.after_step([&](const Step& step) {
            if (step.number == 25) std::raise(signal);
        });
        const Report report = run(trainer);
        EXPECT_EQ(report.signal, signal);
        EXPECT_FALSE(report.complete);
        EXPECT_GE(report.steps, 25);
        EXPECT_LT(report.steps, 60);
        options.resume = options.save;
        EXPECT_EQ(run(options).state_sha256, whole);
    }
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST_F(TrainerTest, EndsWhereValidationsComeToNoLess) {
    TrainerOptions options = this->options();
    options.schedule = {.decay = optim::Decay::constant, .peak = 0};
    options.patience = 2;
    options.validate_every = 4;
    std::vector<bool> best;
    Trainer trainer(net(), options);
    trainer.after_validation([&](const ValidatedStep& step) { best.push_back(step.best); });
    const Report report = run(trainer);
    EXPECT_THAT(best, ElementsAre(true, false, false));
    EXPECT_EQ(report.steps, 12);
    EXPECT_TRUE(report.complete);
    EXPECT_TRUE(report.validation);
    // What was counted before a resume counts on.
    options.save = path("patient.safetensors");
    options.stop_after = 9;
    run(options);
    options.resume = options.save;
    options.stop_after = -1;
    EXPECT_EQ(run(options).steps, 12);
}

TEST_F(TrainerTest, ValidationsChangeNoBitAndTheBestIsKept) {
    TrainerOptions options = this->options();
    options.steps = 24;
    const std::string plain = run(options).state_sha256;
    options.validate_every = 5;
    options.best = path("best.safetensors");
    options.log = path("log.jsonl");
    options.tensorboard = path("events");
    Trainer trainer(net(), options);
    std::int64_t last_best = 0;
    trainer.after_validation([&](const ValidatedStep& step) {
        if (step.best) last_best = step.number;
    });
    EXPECT_EQ(run(trainer).state_sha256, plain);
    EXPECT_EQ(files::SafetensorsFile(options.best).metadata().at("steps"), std::to_string(last_best));
    std::ifstream log(options.log);
    std::int64_t lines = 0, validations = 0;
    for (std::string line; std::getline(log, line); ++lines) validations += line.find("validation/") != line.npos;
    EXPECT_EQ(validations, 5);  // 5, 10, 15, 20 and the last step
    EXPECT_EQ(lines, 24 + validations);
    EXPECT_FALSE(std::filesystem::is_empty(options.tensorboard));
}

TEST_F(TrainerTest, ValidatesByAveragesWhichAResumeHasToTheBit) {
    TrainerOptions options = this->options();
    options.validate_every = 7;
    options.best = path("best.safetensors");
    const Report plain = run(options);
    options.average = 1e-9;  // as good as the weights
    EXPECT_NEAR(run(options).validation->loss, plain.validation->loss, 1e-5);
    options.average = 0.9;
    Trainer trainer(net(), options);
    std::vector<double> losses;
    trainer.after_validation([&](const ValidatedStep& step) { losses.push_back(step.validation.loss); });
    const Report whole = run(trainer);
    EXPECT_EQ(whole.train_loss, plain.train_loss);
    EXPECT_GT(std::abs(whole.validation->loss - plain.validation->loss), 1e-4);
    EXPECT_NE(whole.state_sha256, plain.state_sha256);
    EXPECT_GE(whole.forecast.resident_bytes(),
              plain.forecast.resident_bytes() + 4 * static_cast<std::size_t>(plain.forecast.parameters));
    EXPECT_EQ(whole.peak_bytes_allocated, whole.forecast.peak.allocated);
    EXPECT_EQ(whole.peak_bytes_reserved, whole.forecast.peak.reserved);

    TrainerOptions best = options;  // is validated as it was
    best.resume = std::exchange(best.best, "");
    best.steps = std::stoll(files::SafetensorsFile(best.resume).metadata().at("steps"));
    EXPECT_EQ(run(best).validation->loss, std::ranges::min(losses));

    TrainerOptions part = options;
    part.save = path("part.safetensors");
    part.stop_after = 13;
    run(part);
    options.resume = part.save;
    const Report resumed = run(options);
    EXPECT_EQ(resumed.state_sha256, whole.state_sha256);
    EXPECT_EQ(resumed.validation->loss, whole.validation->loss);
    EXPECT_EQ(resumed.peak_bytes_allocated, resumed.forecast.peak.allocated);
    options.average = 0.8;
    EXPECT_THAT([&] { run(options); }, ThrowsMessage<Error>(HasSubstr("average 0.9, not 0.8")));
}

TEST_F(TrainerTest, PrintsOnlyIfAskedTo) {
    TrainerOptions options = this->options();
    ::testing::internal::CaptureStdout();
    run(options);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
    options.print = true;
    ::testing::internal::CaptureStdout();
    run(options);
    EXPECT_THAT(::testing::internal::GetCapturedStdout(),
                AllOf(HasSubstr("115 parameters\npredicted peak "), HasSubstr("step 60/60  loss "),
                      HasSubstr("step 60: validation loss "), HasSubstr(", accuracy "), HasSubstr("peak memory ")));
}

TEST_F(TrainerTest, ALimitThatDoesNotSufficeIsKnownBeforehand) {
    constexpr int width = 8192;
    TrainerOptions options = this->options();
    options.batch = 160;
    options.epochs = 1;
    Trainer trainer(net(width), options);
    const std::size_t page = std::size_t{2} << 20, limit = run(trainer).peak_bytes_reserved - page;
    const auto limited = [&](const TrainerOptions& given) {
        Context context = Context::cpu({.threads = 1, .memory_limit = limit, .seed = 5});
        return Trainer(net(width), given).run(context);
    };
    EXPECT_THAT(
        [&] { limited(options); },
        ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("it fits with .budget = " + std::to_string(limit) +
                                                   " in place of .memory_limit: 2 micro-batches of 80 samples, "),
                                         HasSubstr("; or with .memory_limit = " + std::to_string(limit + page)))));
    options.budget = limit;
    Trainer planned(net(width), options);
    const Report report = run(planned);
    EXPECT_TRUE(report.complete);
    EXPECT_LE(report.peak_bytes_reserved, limit);
}

TEST_F(TrainerTest, OnADryContextItOnlyRehearses) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    Context dry = Context::dry(context.profile());
    Trainer trainer(net(), options());
    const Report rehearsed = trainer.run(dry);
    EXPECT_EQ(rehearsed.steps, 0);
    EXPECT_EQ(rehearsed.forecast.peak.allocated, run(options()).peak_bytes_allocated);
}

TEST_F(TrainerTest, OptionsOutOfRangeAreNamed) {
    const auto refused = [&](const std::string& line, auto change) {
        TrainerOptions options = this->options();
        change(options);
        EXPECT_THAT([&] { run(options); }, ThrowsMessage<Error>(HasSubstr(line)));
    };
    refused(".batch = 0: must be at least 1", [](TrainerOptions& o) { o.batch = 0; });
    refused(".accumulate = 0: must be at least 1", [](TrainerOptions& o) { o.accumulate = 0; });
    refused(".epochs = -1: must be at least 1", [](TrainerOptions& o) { o.epochs = -1; });
    refused(".patience = -2: must be at least 0", [](TrainerOptions& o) { o.patience = -2; });
    refused(".average = 1: must be at least 0 and below 1", [](TrainerOptions& o) { o.average = 1; });
    refused(".save_every needs .save", [](TrainerOptions& o) { o.save_every = 2; });
    refused(".recompute = all: there are no ways of recomputing", [](TrainerOptions& o) { o.recompute = "all"; });
    refused(".recompute = all: the ways are none, hidden", [](TrainerOptions& o) {
        o.recomputes = {{"none", "", {}}, {"hidden", "", {{"hidden", recompute_all()}}}};
        o.recompute = "all";
    });
    refused(".resume no such file", [](TrainerOptions& o) { o.resume = "no such file"; });
}

TEST_F(TrainerTest, WaysOfRecomputingChangeNoBit) {
    TrainerOptions options = this->options();
    options.steps = 4;
    const std::string kept = run(options).state_sha256;
    options.recomputes = {{"none", "nothing", {}}, {"body", "all layers", {{"body", recompute_all()}}}};
    options.recompute = "body";
    const Report again = run(options);
    EXPECT_GT(again.last_step.replayed_ops, 0u);
    EXPECT_EQ(again.state_sha256, kept);
}

/// Whatever a context was told before it trains decides what is reserved, and is rehearsed.
TEST_F(TrainerTest, IsRehearsedAsItsContextIs) {
    TrainerOptions options = this->options();
    options.steps = 2;
    const auto replayed = [&](const ContextOptions& of, const std::function<void(Context&)>& tell) {
        Context context = Context::cpu(of);
        tell(context);
        const Report report = Trainer(net(512), options).run(context);
        EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
        EXPECT_EQ(report.peak_bytes_reserved, report.forecast.peak.reserved);
        return report.last_step.replayed_ops;
    };
    const auto nothing = [](Context&) {};
    EXPECT_EQ(replayed({.threads = 1, .seed = 5}, nothing), 0u);
    EXPECT_GT(replayed({.threads = 1}, [](Context& context) { context.policy("body", recompute_all()); }), 0u);
    EXPECT_GT(replayed({.threads = 1}, [](Context& context) { context.policy(recompute_all()); }), 0u);
    const auto taken_away = [](Context& context) {
        context.policy(recompute_all());
        context.policy(std::nullopt);
    };
    EXPECT_EQ(replayed({.threads = 1}, taken_away), 0u);
    replayed({.threads = 2, .compute = {.scratch_budget = 1 << 20}}, nothing);
    replayed({.threads = 1, .memory_limit = std::size_t{1} << 30}, nothing);
}

/// Data that is computed, without an end.
class Endless final : public EndlessTask {
  public:
    Endless(Parameters& parameters, std::int64_t)
        : context_(parameters.context()), model_(nn::Path(parameters), 1, 1) {}
    Batch batch() override { return {context_.from_host(std::vector<float>{1}, {1, 1})}; }
    Loss loss(const Batch& batch) override { return Loss(model_(batch[0]), 1); }

  private:
    Context& context_;
    nn::Linear model_;
};

TEST(TrainerWithoutEpochs, WantsSteps) {
    Context context = Context::cpu({.threads = 1});
    EXPECT_THAT([&] { Trainer(task<Endless>(), {.print = false}).run(context); },
                ThrowsMessage<Error>(HasSubstr("the data has no end; give .steps instead")));
    EXPECT_EQ(Trainer(task<Endless>(), {.steps = 3, .print = false}).run(context).steps, 3);
}

/// A module whose output is not finite for one draw of twenty.
class Unlucky final : public test::OneLayerTask {
  public:
    Unlucky(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        const RegionScope region(context_, context_.module_path("unlucky"));
        return Loss(sum * log(rand(context_, {}, Dtype::f32, -0.05, 1)), 1);
    }
};

TEST(TrainerOfADrawThatIsNotFinite, NamesTheModuleThatDrew) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    EXPECT_THAT([&] { Trainer(task<Unlucky>(), {.accumulate = 3, .steps = 200, .print = false}).run(context); },
                ThrowsMessage<Error>(HasSubstr("the first output that is not finite is that of unlucky")));
}

/// Every output of a module is finite, and the loss that is made of them is not.
class NoLoss final : public test::OneLayerTask {
  public:
    NoLoss(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        return Loss(sum * log(affine(square(sum), -1, -1)), 1);
    }
};

TEST(TrainerOfALossThatIsNotFinite, SaysThatItIsTheLoss) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    EXPECT_THAT([&] { Trainer(task<NoLoss>(), {.steps = 2, .print = false}).run(context); },
                ThrowsMessage<Error>(HasSubstr("every module's output was finite, but the loss was not")));
}

}  // namespace trainer_test
}  // namespace headroom::training
