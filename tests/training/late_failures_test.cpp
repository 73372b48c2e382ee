// What fails or ends late in a step, or is seen late: the training goes on from the last whole step with the bits of
// one that nothing disturbed.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/deep_task.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace late_failures_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Points = data::MemoryDataset<float>;

constexpr std::int64_t kBatch = 2, kAccumulate = 6, kSteps = 5;

Points points() {
    std::vector<float> values(2 * kBatch * kAccumulate);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 11);
    return {values, {1}, values};
}

/// Points of which one can't be read while that is said.
class Breaking {
  public:
    using Batch = Points::Batch;

    Breaking(std::int64_t bad, const bool* broken) : bad_(bad), broken_(broken) {}
    std::int64_t size() const { return points_.size(); }
    void read(std::span<const std::int64_t> indices, Batch& batch) const {
        if (*broken_ && std::ranges::find(indices, bad_) != indices.end()) throw FileError("a sample is damaged");
        points_.read(indices, batch);
    }

  private:
    Points points_ = points();
    std::int64_t bad_;
    const bool* broken_;
};

/// Its loss draws.
class Drawing final : public DataTask<Breaking> {
  public:
    Drawing(Parameters& parameters, std::int64_t batch, const Breaking& points)
        : DataTask(parameters, shuffled(points, points, batch)), model_(nn::Path(parameters), 1, 1) {}
    Loss loss(const Batch& batch) override {
        return Loss(sum(square(model_(batch[0]) + randn(context(), batch[0].shape()))), kBatch);
    }
    Validation validate(const ProgressCallback&) override { return {}; }

  private:
    nn::Linear model_;
};

/// The first sample of a step's micro-batch, in the first epoch.
std::int64_t sample_of(std::int64_t step, std::int64_t micro_batch) {
    const auto order = data::Sampler::shuffled(points().size(), kBatch, 0, {.drop_last = true});
    std::vector<std::int64_t> samples;
    order.indices(0, (step - 1) * kAccumulate + micro_batch, samples);
    return samples.front();
}

TrainerOptions usual() {
    return {.batch = kBatch, .accumulate = kAccumulate, .steps = kSteps, .handle_signals = false, .print = false};
}

/// The state in the end, on rank 0.
std::string train(int ranks, const TrainerOptions& options, std::int64_t bad, bool* broken) {
    std::string state;
    const auto work = [&](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        Trainer trainer(task<Drawing>(Breaking(bad, broken)), options);
        const Report report = trainer.train(context, {});
        if (group->rank() == 0) state = report.state_sha256;
    };
    dist::run_ranks(ranks, work);
    return state;
}

TEST(LateFailures, ABatchThatCanNotBeReadLateInAStepLosesNothing) {
    const test::ScratchFolder folder;
    for (const int ranks : {1, 2, 3}) {
        for (const auto& [step, micro_batch] : {std::pair{1, 1}, {2, 1}, {2, 4}, {2, 5}}) {
            SCOPED_TRACE(testing::Message() << ranks << " ranks, step " << step << ", micro-batch " << micro_batch);
            const std::int64_t bad = sample_of(step, micro_batch);
            bool broken = false;
            const std::string whole = train(ranks, usual(), bad, &broken);
            TrainerOptions failing = usual();
            failing.save = folder.path() / fmt::format("{}_{}_{}", ranks, step, micro_batch);
            broken = true;
            failing.print = true;
            ::testing::internal::CaptureStdout();
            EXPECT_THROW(train(ranks, failing, bad, &broken), UnreadableBatch);
            EXPECT_THAT(::testing::internal::GetCapturedStdout(),
                        HasSubstr(fmt::format("saved to {} after step {}; .resume continues from there", failing.save,
                                              step - 1)));
            EXPECT_EQ(files::SafetensorsFile(failing.save).metadata().at("steps"), std::to_string(step - 1));
            TrainerOptions rest = usual();
            rest.resume = failing.save;
            broken = false;
            EXPECT_EQ(train(ranks, rest, bad, &broken), whole);
        }
    }
}

/// Validates on other points than it trains on.
class Judged final : public DataTask<Breaking> {
  public:
    Judged(Parameters& parameters, std::int64_t batch, const Breaking& training, const Breaking& validation)
        : DataTask(parameters, shuffled(training, validation, batch)), model_(nn::Path(parameters), 1, 1) {}
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), kBatch); }

  private:
    nn::Linear model_;
};

/// The one that met it says what is to be mended.
TEST(LateFailures, WhatOneProcessCanNotReadIsNamedByThatOne) {
    bool broken = true, sound = false;
    const Breaking good(0, &sound);
    for (const bool validates : {false, true}) {
        const Breaking bad(validates ? kBatch : sample_of(1, 1), &broken);  // of rank 1's first batch
        const MakeTask judged = validates ? task<Judged>(good, bad) : task<Judged>(bad, good);
        std::array<std::string, 2> told;
        dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
            Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
            Session session(context, judged, usual());
            try {
                session.step();
                session.validate();
            } catch (const UnreadableBatch& error) {
                told[static_cast<std::size_t>(group->rank())] = error.what();
            }
        });
        EXPECT_THAT(told, ElementsAre("another process can't read a batch", "a sample is damaged"));
    }
}

TEST(LateFailures, ASignalInTheLastStepEndsNothingEarly) {
    for (const std::int64_t signalled : {kSteps - 1, kSteps}) {
        TrainerOptions options = usual();
        options.handle_signals = true;
        bool broken = false;
        Trainer trainer(task<Drawing>(Breaking(0, &broken)), options);
        trainer.after_step([&](const Step& step) {
            if (step.number == signalled) std::raise(SIGINT);
        });
        Context context = Context::cpu({.threads = 1, .seed = 5});
        const Report report = trainer.run(context);
        EXPECT_EQ(report.steps, signalled);
        EXPECT_EQ(report.complete, signalled == kSteps);
        EXPECT_EQ(report.signal, signalled == kSteps ? 0 : SIGINT);
        EXPECT_EQ(report.validation.has_value(), report.complete);
    }
}

/// All of it is one module, which a policy may compute again.
class DeepInBody final : public test::Deep {
  public:
    using Deep::Deep;
    Loss loss(const Batch& batch) override {
        const RegionScope region(context(), context().module_path("body"));
        return Deep::loss(batch);
    }
};

/// The training that was saved may have one plan, and the rest of it another, or a way by hand.
TEST(LateFailures, APlanThatDividesIsResumedWithAnotherWay) {
    const test::ScratchFolder folder;
    const MakeTask deep = task<DeepInBody>(test::deep_points());
    const auto run = [&](const TrainerOptions& options) {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return Trainer(deep, options).run(context);
    };
    TrainerOptions planned{.batch = test::kDeepBatch,
                           .steps = 3,
                           .recomputes = {{"none", "nothing", {}}, {"all", "all layers", {{"body", recompute_all()}}}},
                           .handle_signals = false,
                           .print = false};
    planned.budget = std::size_t{1} << 30;
    planned.budget = Trainer(deep, planned).plan(Context::cpu({.threads = 1}).profile()).floor_bytes;
    const std::string whole = run(planned).state_sha256;
    TrainerOptions half = planned;
    half.stop_after = 1;
    half.save = folder.path() / "half";
    const plan::Plan plan = run(half).planned->plan;
    ASSERT_LT(plan.division.batch, test::kDeepBatch);

    for (const std::string way : {"none", "all"}) {
        TrainerOptions rest = planned;
        rest.budget = 0;
        rest.resume = half.save;
        rest.recompute = way;
        EXPECT_THAT([&] { run(rest); },
                    ThrowsMessage<Error>(HasSubstr(fmt::format("accumulate {}, not 1", plan.division.accumulate))));
        rest.batch = plan.division.batch;
        rest.accumulate = plan.division.accumulate;
        rest.stop_after = 1;
        rest.save = folder.path() / way;
        const Report report = run(rest);
        EXPECT_EQ(report.last_step.replayed_ops > 0, way == "all");
        EXPECT_EQ(report.peak_bytes_reserved, report.forecast.peak.reserved);
        TrainerOptions last = rest;
        last.resume = std::exchange(last.save, "");
        last.stop_after = -1;
        EXPECT_FALSE(saved_plan(last)) << "it was trained by hand";
        EXPECT_EQ(run(last).state_sha256, whole) << way;
    }
}

/// Its loss, and only this one, comes from a module whose output is no number in one micro-batch.
class Unlucky final : public test::OneLayerTask {
  public:
    Unlucky(Parameters& parameters, std::int64_t, std::int64_t micro_batch)
        : test::OneLayerTask(parameters), micro_batch_(static_cast<std::uint64_t>(micro_batch)) {}
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        if (context_.random_counter() != micro_batch_) return Loss(sum, 1);
        const RegionScope region(context_, context_.module_path("unlucky"));
        return Loss(log(square(sum) * -1.0), 1);
    }

  private:
    std::uint64_t micro_batch_;
};

struct Steps {
    explicit Steps(std::int64_t unlucky)
        : session(context, task<Unlucky>(unlucky),
                  {.accumulate = 2, .steps = 100, .handle_signals = false, .print = false}) {}
    void take(std::int64_t steps) {
        while (steps-- > 0) session.step();
    }
    std::vector<double> losses(std::int64_t leave) {
        std::vector<double> all;
        for (const optim::StepResult& result : session.results(leave)) all.push_back(result.loss);
        return all;
    }
    Context context = Context::cpu({.threads = 1, .seed = 5});
    Session session;
};

TEST(LateFailures, ResultsOfStepsThatWereLeftAreThoseOfTheseSteps) {
    Steps each(-1), late(-1);
    std::vector<double> expected;
    for (int step = 0; step < 9; ++step) {
        each.take(1);
        expected.push_back(each.losses(0).at(0));
    }
    ASSERT_NE(expected[0], expected[8]);
    const auto part = [&](std::int64_t first, std::int64_t end) {
        return std::vector<double>(expected.begin() + first, expected.begin() + end);
    };
    late.take(4);
    EXPECT_EQ(late.losses(3), part(0, 1));
    EXPECT_EQ(late.session.unread(), 3);
    EXPECT_EQ(late.losses(3), part(0, 0));
    late.take(3);
    EXPECT_EQ(late.losses(2), part(1, 5));
    late.take(2);
    EXPECT_EQ(late.losses(0), part(5, 9));
    EXPECT_EQ(late.session.unread(), 0);
}

TEST(LateFailures, AStepThatWasLeftNamesItselfAndItsModule) {
    constexpr std::int64_t bad = 7;
    for (const std::int64_t micro_batch : {0, 1}) {
        for (const std::int64_t read : {0, 3, 6}) {
            Steps steps(2 * (bad - 1) + micro_batch);
            steps.take(read + 1);
            EXPECT_EQ(std::ssize(steps.losses(1)), read);
            steps.take(9 - read - 1);
            const std::int64_t left = micro_batch == 0 ? 3 : 8;  // then the rest is read at once
            EXPECT_EQ(std::ssize(steps.losses(left)), std::max<std::int64_t>(0, 9 - left - read));
            EXPECT_THAT(
                [&] { steps.session.results(2); },
                ThrowsMessage<Error>(AllOf(HasSubstr("step 7: the loss is not finite"),
                                           HasSubstr("the first output that is not finite is that of unlucky"))));
        }
    }
}

/// More steps than results are kept, none of which was read: those that are there are the last ones.
TEST(LateFailures, OfMoreStepsThanAreKeptTheLastOnesAreTold) {
    Steps steps(-1);
    steps.take(Session::kKeptResults + 7);
    EXPECT_EQ(steps.session.unread(), Session::kKeptResults);
    Steps read(-1);
    read.take(7);
    read.session.results();
    read.take(Session::kKeptResults);
    EXPECT_EQ(steps.losses(0), read.losses(0));
    constexpr std::int64_t bad = 50;
    Steps broken(2 * (bad - 1));
    broken.take(Session::kKeptResults + 7);
    EXPECT_THAT([&] { broken.session.results(); },
                ThrowsMessage<Error>(AllOf(HasSubstr("step 50: the loss is not finite"), HasSubstr("of unlucky"))));
}

}  // namespace late_failures_test
}  // namespace headroom::training
