// What a plan leaves as it is, and what a budget refuses while it trains.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/nn/low_rank.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace planned_training_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using Points = data::MemoryDataset<std::int32_t>;

constexpr std::int64_t kSamples = 2048, kColumns = 128;

/// What it keeps for backward is more than its weights.
class Layers : public DataTask<Points> {
  public:
    Layers(Parameters& parameters, std::int64_t batch, const Points& points)
        : DataTask(parameters, shuffled(points, points, batch, 7)) {
        for (int i = 0; i < 16; ++i) {
            const std::int64_t in = i == 0 ? 2 : kColumns;
            layers_.emplace_back(nn::Path(parameters) / ("layer" + std::to_string(i)), in, kColumns);
        }
    }
    Loss loss(const Batch& batch) override {
        Tensor x = batch[0];
        for (const nn::Linear& layer : layers_) x = tanh(layer(x));
        return cross_entropy(x, batch[1]);
    }
    Validation validate(const ProgressCallback&) override { return {}; }

  protected:
    std::vector<nn::Linear> layers_;
};

/// Whose adapters alone are trained.
class AdaptedLayers final : public Layers {
  public:
    AdaptedLayers(Parameters& parameters, std::int64_t batch, const Points& points)
        : Layers(parameters, batch, points) {
        parameters.freeze("**");
        for (std::size_t i = 0; i < layers_.size(); ++i)
            nn::add_low_rank(layers_[i], nn::Path(parameters) / "adapters" / i, {.rank = 2});
    }
};

/// As with a loss over pairs, which its ops do not tell.
class OfPairs final : public Layers {
  public:
    using Layers::Layers;
    bool samples_are_independent() const override { return false; }
};

/// Takes much memory where a value says so, which no rehearsal knows: items of a dry context are 0.
class ByValues final : public Layers {
  public:
    using Layers::Layers;
    Loss loss(const Batch& batch) override {
        Loss loss = Layers::loss(batch);
        if (loss.sum().item() > 0) extra_.push_back(zeros(batch[0].context(), {std::int64_t{4} << 20}));
        return loss;
    }

  private:
    std::vector<Tensor> extra_;
};

Points points_of_samples() {
    std::vector<float> features(2 * kSamples);
    for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i) / kSamples;
    std::vector<std::int32_t> labels(kSamples);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 2);
    return {features, {2}, labels};
}

class PlannedTraining : public ::testing::Test {
  protected:
    static TrainerOptions options() {
        return {.batch = kSamples, .steps = 3, .schedule = {.peak = 1e-3}, .print = false};
    }
    Points points_ = points_of_samples();
};

TEST_F(PlannedTraining, RefusesAChoiceThatContradictsTheRules) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    TrainerOptions budgeted = options();
    budgeted.budget = std::size_t{1} << 30;
    plan::Plan plan = Trainer(task<Layers>(points_), budgeted).plan(profile).plan;
    TrainerOptions by_hand = options();
    by_hand.recomputes = {{"none", "nothing", {}}, {"all", "all layers", {{"**", recompute_all()}}}};
    const Trainer trainer(task<Layers>(points_), by_hand);
    trainer.check(plan, profile);
    plan.division.choice = "all";
    EXPECT_THAT([&] { trainer.check(plan, profile); },
                ThrowsMessage<Error>(HasSubstr("the plan chooses all, which has policies of its own")));
    plan.division.choice = "layers";
    EXPECT_THAT([&] { trainer.check(plan, profile); }, ThrowsMessage<Error>(HasSubstr("the ways are none, all")));
}

TEST_F(PlannedTraining, KeepsTheBatchOfATaskWhoseSamplesDepend) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    const MakeTask whole = task<OfPairs>(points_);
    TrainerOptions tight = options();
    tight.budget = std::size_t{1} << 30;
    tight.budget = Trainer(whole, tight).plan(profile).floor_bytes;
    EXPECT_EQ(Trainer(whole, tight).plan(profile).plan.division.batch, kSamples);
    EXPECT_LT(Trainer(task<Layers>(points_), tight).plan(profile).plan.division.batch, kSamples);
    EXPECT_TRUE(Trainer(whole, options()).rehearse(profile).keeps_batch);
    EXPECT_TRUE(Trainer(whole, options()).rehearse(profile).couples_samples);
    tight.split_batch = true;
    EXPECT_THAT([&] { Trainer(whole, tight).plan(profile); }, ThrowsMessage<Error>(HasSubstr("batch can't be split")));
    tight.split_batch.reset();
    tight.budget -= std::size_t{2} << 20;
    try {
        Trainer(whole, tight).plan(profile);
        FAIL();
    } catch (const plan::BudgetTooSmall& error) {
        EXPECT_FALSE(error.least_split()) << "no smaller micro-batch is advised";
    }
}

/// Where the batch does not fit at all.
TEST_F(PlannedTraining, NoAdviceSplitsTheBatchOfATaskWhoseSamplesDepend) {
    const auto advice_for = [&](const MakeTask& make) -> std::string {
        Profile profile = Context::cpu({.threads = 1}).profile();
        TrainerOptions tight = options();
        tight.budget = std::size_t{1} << 30;
        profile.memory_limit =
            Trainer(task<OfPairs>(points_), tight).plan(profile).floor_bytes - (std::size_t{2} << 20);
        try {
            Trainer(make, options()).rehearse(profile);
        } catch (const OutOfMemory& error) {
            return error.report().advice;
        }
        return "";
    };
    EXPECT_THAT(advice_for(task<Layers>(points_)), HasSubstr("split from 2048: draws differ"));
    EXPECT_THAT(advice_for(task<OfPairs>(points_)),
                AllOf(HasSubstr("no plan needs less than"), Not(HasSubstr("split")), Not(HasSubstr(".accumulate"))));
}

TEST_F(PlannedTraining, OfAdaptersHasTheBitsOfTheOneWithoutAPlan) {
    const MakeTask adapted = task<AdaptedLayers>(points_);
    TrainerOptions whole = options(), tight = options();
    tight.split_batch = false;
    tight.budget = std::size_t{1} << 30;
    Context context = Context::cpu({.threads = 1, .seed = 5}), other = Context::cpu({.threads = 1, .seed = 5});
    tight.budget = Trainer(adapted, tight).plan(context.profile()).floor_bytes;
    const std::string state = Trainer(adapted, whole).run(context).state_sha256;
    EXPECT_GT(context.memory().peak().reserved, tight.budget);
    EXPECT_EQ(Trainer(adapted, tight).run(other).state_sha256, state);
    EXPECT_LE(other.memory().peak().reserved, tight.budget);
}

/// Of several processes the first one has as many micro-batches as any.
TEST_F(PlannedTraining, TellsTheFiguresOfOneProcess) {
    const MakeTask layers = task<Layers>(points_);
    Profile profile = Context::cpu({.threads = 1}).profile();
    for (const auto& [ranks, own] : {std::pair{1, 3}, {2, 2}}) {
        profile.ranks = ranks;
        TrainerOptions tight = options();
        tight.accumulate = 3;
        tight.split_batch = false;
        tight.budget = std::size_t{1} << 30;
        tight.budget = Trainer(layers, tight).plan(profile).floor_bytes;
        Trainer trainer(layers, tight);
        const plan::Plan plan = trainer.plan(profile).plan;
        trainer.apply(plan);
        const Forecast forecast = trainer.rehearse(profile);
        ASSERT_GT(plan.replayed_ops, 0u);
        EXPECT_EQ(plan.replayed_ops % static_cast<std::uint64_t>(own), 0u);
        EXPECT_EQ(plan.replayed_ops, forecast.replayed_ops) << ranks;
        EXPECT_NEAR(plan.step_seconds, forecast.step_seconds.value(), 1e-6 * plan.step_seconds) << ranks;
    }
}

/// What others have in the same memory comes on top.
TEST_F(PlannedTraining, IsLimitedToItsBudgetBesideOthers) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    const Tensor others = zeros(context, {std::int64_t{16} << 20});
    const std::size_t reserved = context.memory().statistics().reserved;
    TrainerOptions budgeted = options();
    budgeted.budget = std::size_t{64} << 20;
    Trainer trainer(task<Layers>(points_), budgeted);
    std::set<std::size_t> limits;
    trainer.after_step([&](const Step&) { limits.insert(context.memory().limit()); });
    trainer.train(context, {});
    EXPECT_EQ(limits, std::set{budgeted.budget + reserved});
    EXPECT_EQ(context.memory().limit(), 0u);
}

/// As `Trainer::apply` gives one.
TEST_F(PlannedTraining, GoesOnByAPlanThatIsGivenNotByThatOfTheFile) {
    const test::ScratchFolder folder;
    const MakeTask layers = task<Layers>(points_);
    const auto run = [](Trainer trainer) {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return trainer.run(context);
    };
    TrainerOptions tight = options(), rest = options();
    tight.split_batch = false;
    tight.budget = std::size_t{1} << 30;
    const Planned ample = Trainer(layers, tight).plan(Context::cpu({.threads = 1}).profile());
    tight.budget = ample.floor_bytes;
    tight.stop_after = 1;
    tight.save = rest.resume = folder.path() / "half";
    ASSERT_GT(run({layers, tight}).last_step.replayed_ops, 0u);
    rest.save = folder.path() / "whole";
    Trainer given(layers, rest);
    given.apply(ample.plan);
    const Report report = run(given);
    EXPECT_EQ(report.last_step.replayed_ops, 0u);
    EXPECT_EQ(report.peak_bytes_reserved, ample.plan.peak_bytes_reserved);
    rest.resume = rest.save;
    EXPECT_EQ(plan::plan_text(saved_plan(rest).value()), plan::plan_text(ample.plan));
}

TEST_F(PlannedTraining, IsLimitedToItsBudget) {
    TrainerOptions budgeted = options();
    budgeted.budget = std::size_t{64} << 20;
    Context context = Context::cpu({.threads = 1, .seed = 5});
    EXPECT_TRUE(Trainer(task<Layers>(points_), budgeted).run(context).complete);
    EXPECT_EQ(context.memory().limit(), 0u) << "and not any longer";
    // By the lower of two limits; the context's is as before in any case.
    TrainerOptions ample = options();
    ample.budget = std::size_t{256} << 20;
    for (const std::size_t limit : {ample.budget / 2, 2 * ample.budget}) {
        Context limited = Context::cpu({.threads = 1, .memory_limit = limit, .seed = 5});
        Trainer trainer(task<Layers>(points_), ample);
        std::set<std::size_t> limits;
        trainer.after_step([&](const Step&) { limits.insert(limited.memory().limit()); });
        trainer.train(limited, {});
        EXPECT_EQ(limits, std::set{std::min(limit, ample.budget)});
        EXPECT_EQ(limited.memory().limit(), limit);
    }
    budgeted.steps = 12;
    Context other = Context::cpu({.threads = 1, .seed = 5});
    try {
        Trainer(task<ByValues>(points_), budgeted).run(other);
        FAIL() << other.memory().peak().reserved << " bytes were reserved";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().limit, budgeted.budget);
        EXPECT_THAT(error.report().advice, AllOf(HasSubstr("it depends on values"), HasSubstr("use .budget = ")));
    }
    EXPECT_LE(other.memory().peak().reserved, budgeted.budget);
    EXPECT_EQ(other.memory().limit(), 0u);
}

/// Also where the plan comes from a file, or from the training that is resumed.
TEST_F(PlannedTraining, IsLimitedToTheBudgetThatItsPlanWasMadeFor) {
    const test::ScratchFolder folder;
    const MakeTask layers = task<Layers>(points_);
    TrainerOptions budgeted = options();
    budgeted.budget = std::size_t{64} << 20;
    plan::Plan plan = Trainer(layers, budgeted).plan(Context::cpu({.threads = 1}).profile()).plan;
    EXPECT_EQ(plan.budget, budgeted.budget);
    EXPECT_LT(plan.peak_bytes_reserved, budgeted.budget);
    plan::write_plan(folder.path() / "plan.json", plan);
    plan = plan::read_plan(folder.path() / "plan.json");
    const auto limits_of = [](Trainer trainer) {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        std::set<std::size_t> limits;
        trainer.after_step([&](const Step&) { limits.insert(context.memory().limit()); });
        trainer.run(context);
        EXPECT_EQ(context.memory().limit(), 0u);
        return limits;
    };
    Trainer given(layers, options());
    given.apply(plan);
    EXPECT_EQ(limits_of(given), std::set{budgeted.budget});

    budgeted.stop_after = 1;
    TrainerOptions rest = options();
    budgeted.save = rest.resume = folder.path() / "half";
    EXPECT_EQ(limits_of({layers, budgeted}), std::set{budgeted.budget});
    EXPECT_EQ(limits_of({layers, rest}), std::set{budgeted.budget});
    TrainerOptions by_hand = rest;  // of which nobody has said a budget
    by_hand.recomputes = {{"none", "nothing", {}}};
    by_hand.recompute = "none";
    EXPECT_EQ(limits_of({layers, by_hand}), std::set{std::size_t{0}});

    // A device on which the plan takes more than that is another matter.
    plan.budget = std::size_t{2} << 20;
    given.apply(plan);
    EXPECT_EQ(limits_of(given), std::set{plan.peak_bytes_reserved});

    plan.budget = budgeted.budget;
    TrainerOptions longer = options();
    longer.steps = 12;
    Trainer by_values(task<ByValues>(points_), longer);
    by_values.apply(plan);
    Context context = Context::cpu({.threads = 1, .seed = 5});
    try {
        by_values.run(context);
        FAIL() << context.memory().peak().reserved << " bytes were reserved";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().limit, budgeted.budget);
        EXPECT_THAT(error.report().advice, AllOf(HasSubstr("it depends on values"), HasSubstr("use .budget = ")));
    }
}

}  // namespace planned_training_test
}  // namespace headroom::training
