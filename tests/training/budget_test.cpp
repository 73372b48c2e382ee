// A trainer with a budget: its plan keeps the training within it, and changes no bit.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <headroom/core/apply.hpp>
#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/deep_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace budget_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Points = test::DeepPoints;
using test::Deep;

constexpr std::int64_t kBatch = test::kDeepBatch;

/// Its batches are normalised on the device, by ops that lie on the tape when a micro-batch begins.
class DeepOnDevice final : public Deep {
  public:
    using Deep::Deep;
    Batch batch() override {
        Batch made = Deep::batch();
        made[0] = affine(made[0], 2, -1);
        return made;
    }
};

/// Normalises by its batch, without a layer that keeps running statistics.
class DeepOfBatch final : public Deep {
  public:
    using Deep::Deep;
    Loss loss(const Batch& batch) override { return Deep::loss({batch_norm(batch[0]).y, batch[1]}); }
};

/// A program's own op: a batch less its mean. Whether it says that it couples samples is all that differs.
template <bool says>
struct Centred {
    static constexpr OpInfo info{.name = "centred", .couples_samples = says};
    struct Attrs {};
    struct Saved {};
    /// y = beta y + x - its mean.
    static void centre(const Exec& exec, const Array& x, const View& y, float beta) {
        const Array mean = exec.empty({1, x.shape()[1]}, x.dtype, Category::workspace);
        exec.run<kernels::SumPlan>(x.view(), 1.0 / static_cast<double>(x.shape()[0]), mean.view(), 0.0f);
        exec.launch([&](auto& stream) { kernels::accumulate(stream, x.view(), y, 1.0f, beta); });
        exec.launch([&](auto& stream) { kernels::accumulate(stream, mean.view(), y, -1.0f, 1.0f); });
    }
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.fresh_output(x.shape(), x.dtype);
        centre(exec, x, y.view(), 0);
        return {{}, y};
    }
    static void backward(Exec& exec, const Attrs&, const Saved&, Array dy, GradSink sink) {
        if (auto target = sink.destination(0)) centre(exec, dy, target.view(), target.beta);
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

template <bool says>
class DeepCentred final : public Deep {
  public:
    using Deep::Deep;
    Loss loss(const Batch& batch) override { return Deep::loss({apply<Centred<says>>({}, batch[0]), batch[1]}); }
};

class BudgetTest : public ::testing::Test {
  protected:
    MakeTask deep() const { return task<Deep>(points_); }
    const Points& points() const { return points_; }
    static TrainerOptions options() {
        return {.batch = kBatch, .steps = 3, .schedule = {.peak = 1e-3}, .print = false};
    }
    Report run(TrainerOptions options) const {
        Trainer trainer(deep(), std::move(options));
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return trainer.run(context);
    }
    std::string path(const std::string& name) const { return folder_.path() / name; }

  private:
    Points points_ = test::deep_points();
    test::ScratchFolder folder_;
};

TEST_F(BudgetTest, TheTrainingKeepsWithinItAndChangesNoBit) {
    const Report kept = run(options());
    EXPECT_FALSE(kept.planned);
    TrainerOptions budgeted = options();
    budgeted.split_batch = false;
    budgeted.budget = kept.peak_bytes_reserved * 3 / 4;
    const Report report = run(budgeted);
    ASSERT_TRUE(report.planned);
    EXPECT_EQ(report.planned->keep_all_bytes, kept.peak_bytes_reserved);
    EXPECT_LE(report.planned->floor_bytes, budgeted.budget);
    EXPECT_LE(report.peak_bytes_reserved, budgeted.budget);
    EXPECT_EQ(report.peak_bytes_reserved, report.planned->plan.peak_bytes_reserved);
    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    EXPECT_EQ(report.last_step.replayed_ops, report.planned->plan.replayed_ops);
    EXPECT_GT(report.last_step.replayed_ops, 0u);
    EXPECT_EQ(report.state_sha256, kept.state_sha256);
    EXPECT_GT(report.planned->simulated, report.planned->rehearsed);
}

TEST_F(BudgetTest, PlansForBatchesThatAreMadeByOps) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    for (const int accumulate : {1, 2}) {
        TrainerOptions budgeted = options();
        budgeted.accumulate = accumulate;
        budgeted.split_batch = false;
        budgeted.budget = std::size_t{1} << 30;
        const std::size_t on_host = Trainer(deep(), budgeted).plan(profile).floor_bytes;
        Trainer trainer(task<DeepOnDevice>(points()), budgeted);
        budgeted.budget = trainer.plan(profile).floor_bytes;
        EXPECT_LE(budgeted.budget, on_host + (std::size_t{2} << 20)) << "a page more at most";
        Trainer tight(task<DeepOnDevice>(points()), budgeted);
        Context context = Context::cpu({.threads = 1, .seed = 5});
        const Report report = tight.run(context);
        EXPECT_EQ(report.peak_bytes_reserved, budgeted.budget);
        EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    }
}

TEST_F(BudgetTest, PlansForATrainingThatSavesOnTheWay) {
    TrainerOptions saving = options();
    saving.save = path("often.safetensors");
    saving.save_every = 1;
    saving.budget = std::size_t{1} << 30;
    EXPECT_TRUE(run(saving).planned);
    EXPECT_TRUE(std::filesystem::exists(saving.save));
}

TEST_F(BudgetTest, MayBeAllOfTheDevice) {
    Context whole = Context::dry(Profile::gpu(1'000'000'000));
    const Profile profile = whole.profile();
    TrainerOptions all = options();
    all.budget = profile.usable_bytes();
    EXPECT_LE(Trainer(deep(), all).plan(profile).plan.peak_bytes_reserved, all.budget);
    ++all.budget;
    EXPECT_THROW(Trainer(deep(), all).plan(profile), Error);
}

TEST_F(BudgetTest, AWayThatKeepsAllIsNoOtherPlan) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    TrainerOptions alone = options();
    alone.budget = std::size_t{1} << 30;
    TrainerOptions named = alone;
    named.recomputes = {{"none", "", {}}};
    named.recompute = "none";
    EXPECT_EQ(Trainer(deep(), named).plan(profile).simulated, Trainer(deep(), alone).plan(profile).simulated);
}

TEST_F(BudgetTest, TheBatchIsSharedOutUnlessThatIsRefused) {
    TrainerOptions tight = options();
    tight.budget = std::size_t{1} << 30;
    Trainer trainer(deep(), tight);
    const Profile profile = Context::cpu({.threads = 1}).profile();
    tight.budget = trainer.plan(profile).floor_bytes;
    const Report report = run(tight);
    EXPECT_LT(report.planned->plan.division.batch, kBatch);
    EXPECT_EQ(report.planned->plan.division.batch * report.planned->plan.division.accumulate, kBatch);
    EXPECT_EQ(report.peak_bytes_reserved, tight.budget);
    tight.split_batch = false;
    EXPECT_THROW(run(tight), plan::BudgetTooSmall);
}

/// The floor of rank 0 alone was advised, and refused, where another rank reserves a page more.
TEST_F(BudgetTest, OneFloorIsThatOfAllRanks) {
    Profile profile = Context::cpu({.threads = 1}).profile();
    profile.memory.granularity = std::size_t{1} << 12;  // so that shares of other sizes have other numbers of pages
    bool uneven = false;
    for (profile.ranks = 2; profile.ranks <= 5; ++profile.ranks) {
        TrainerOptions tight = options();
        tight.accumulate = profile.ranks;
        tight.split_batch = false;
        tight.shard = Shard::gradients;
        tight.budget = std::size_t{1} << 30;
        const std::size_t floor = Trainer(deep(), tight).plan(profile).floor_bytes;
        const auto most_of_ranks = [&](const plan::Plan& plan) {
            Trainer following(deep(), tight);
            following.apply(plan);
            std::size_t most = 0;
            for (const RankReport& rank : following.rehearse_ranks(profile))
                most = std::max(most, rank.predicted_bytes_reserved);
            return most;
        };
        tight.budget = floor;
        const plan::Plan plan = Trainer(deep(), tight).plan(profile).plan;
        EXPECT_LE(most_of_ranks(plan), floor) << profile.ranks;
        uneven |= plan.peak_bytes_reserved < floor;
        Profile last = profile;
        last.rank = profile.ranks - 1;
        EXPECT_EQ(plan::plan_text(Trainer(deep(), tight).plan(last).plan), plan::plan_text(plan)) << "all follow one";
        --tight.budget;
        try {
            Trainer(deep(), tight).plan(profile);
            ADD_FAILURE() << "a byte less than the least is planned for";
        } catch (const plan::BudgetTooSmall& error) {
            EXPECT_EQ(error.least(), floor);
            EXPECT_EQ(error.budget(), floor - 1);
        }
    }
    EXPECT_TRUE(uneven) << "no number of ranks here is uneven";
}

TEST_F(BudgetTest, ABatchWhoseSamplesActOnEachOtherStaysWhole) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    TrainerOptions tight = options();
    tight.budget = std::size_t{1} << 30;
    const MakeTask coupled = task<DeepOfBatch>(points());
    tight.budget = Trainer(coupled, tight).plan(profile).floor_bytes;
    EXPECT_EQ(Trainer(coupled, tight).plan(profile).plan.division.batch, kBatch);
    EXPECT_LT(Trainer(deep(), tight).plan(profile).plan.division.batch, kBatch);
    EXPECT_TRUE(Trainer(coupled, options()).rehearse(profile).couples_samples);
    EXPECT_FALSE(Trainer(deep(), options()).rehearse(profile).couples_samples);
}

TEST_F(BudgetTest, ABatchWhoseSamplesAProgramsOwnOpCouplesStaysWhole) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    const auto least = [&](const MakeTask& made, std::optional<bool> split = {}) {
        TrainerOptions tight = options();
        tight.split_batch = split;
        tight.budget = std::size_t{1} << 30;
        tight.budget = Trainer(made, tight).plan(profile).floor_bytes;
        return Trainer(made, tight).plan(profile).plan;
    };
    const MakeTask says = task<DeepCentred<true>>(points()), silent = task<DeepCentred<false>>(points());
    EXPECT_EQ(least(says).division.batch, kBatch);
    EXPECT_EQ(least(says).whole_batch, kBatch);
    EXPECT_LT(least(silent).division.batch, kBatch);
    EXPECT_LT(least(says, true).division.batch, kBatch) << "unless it is asked for";
    EXPECT_TRUE(Trainer(says, options()).rehearse(profile).couples_samples);
    EXPECT_FALSE(Trainer(silent, options()).rehearse(profile).couples_samples);
}

TEST_F(BudgetTest, ATrainingThatIsResumedKeepsItsBatch) {
    TrainerOptions half = options();
    half.stop_after = 1;
    half.save = path("half.safetensors");
    run(half);
    TrainerOptions rest = options();
    rest.resume = half.save;
    rest.split_batch = true;
    rest.budget = run(options()).peak_bytes_reserved * 3 / 4;
    const Report report = run(rest);
    EXPECT_EQ(report.planned->plan.division.batch, kBatch);
    EXPECT_EQ(report.state_sha256, run(options()).state_sha256);
    rest.budget = report.planned->floor_bytes - 1;
    EXPECT_THROW(run(rest), plan::BudgetTooSmall);
    rest.resume.clear();
    EXPECT_LT(run(rest).planned->plan.division.batch, kBatch);
}

TEST_F(BudgetTest, ATrainingThatIsResumedHasThePlanThatItWasSavedWith) {
    for (const bool split : {false, true}) {  // the least of one micro-batch runs ops again, that of many does not
        TrainerOptions half = options();
        half.split_batch = split;
        half.budget = std::size_t{1} << 30;
        half.budget = Trainer(deep(), half).plan(Context::cpu({.threads = 1}).profile()).floor_bytes;
        TrainerOptions whole = half;
        half.stop_after = 1;
        half.save = path("half.safetensors");
        const plan::Plan plan = run(half).planned->plan;
        ASSERT_TRUE(split ? plan.division.batch < kBatch : plan.replayed_ops > 0);

        TrainerOptions rest = options();
        rest.resume = half.save;
        ASSERT_TRUE(saved_plan(rest));
        EXPECT_EQ(plan::plan_text(*saved_plan(rest)), plan::plan_text(plan));
        rest.save = path("rest.safetensors");
        const Report report = run(rest);
        EXPECT_EQ(report.peak_bytes_reserved, plan.peak_bytes_reserved);
        EXPECT_EQ(report.last_step.replayed_ops, plan.replayed_ops);
        EXPECT_EQ(report.state_sha256, run(whole).state_sha256);
        TrainerOptions again = rest;  // and so on, from file to file
        again.resume = std::exchange(again.save, "");
        EXPECT_EQ(plan::plan_text(*saved_plan(again)), plan::plan_text(plan));

        TrainerOptions roomy = rest;  // another plan, but the micro-batch stays
        roomy.save.clear();
        roomy.budget = std::size_t{1} << 30;
        const Report kept = run(roomy);
        EXPECT_EQ(kept.planned->plan.division, plan.division);
        EXPECT_EQ(kept.last_step.replayed_ops, 0u);
        EXPECT_EQ(kept.state_sha256, report.state_sha256);
    }
}

TEST_F(BudgetTest, ASavedPlanOfAnotherProgramIsRefused) {
    TrainerOptions half = options();
    half.budget = std::size_t{1} << 30;
    half.stop_after = 1;
    half.save = path("half.safetensors");
    run(half);
    TrainerOptions rest = options();
    rest.resume = half.save;
    rest.autocast = Dtype::bf16;
    EXPECT_THAT([&] { run(rest); },
                ThrowsMessage<Error>(AllOf(HasSubstr("half.safetensors: "), HasSubstr("give .budget or .recompute"))));
    rest.resume = path("none.safetensors");
    EXPECT_THAT([&] { run(rest); }, ThrowsMessage<Error>(HasSubstr("none.safetensors")));
}

TEST_F(BudgetTest, APlanThatWasMadeBeforeIsFollowedIfItIsForTheTraining) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    TrainerOptions budgeted = options();
    budgeted.budget = std::size_t{1} << 30;
    budgeted.budget = Trainer(deep(), budgeted).plan(profile).floor_bytes;
    Trainer trainer(deep(), budgeted);
    const plan::Plan plan = trainer.plan(profile).plan;
    ASSERT_LT(plan.division.batch, kBatch);
    trainer.check(plan, profile);
    trainer.apply(plan);
    EXPECT_EQ(trainer.options().batch, plan.division.batch);
    EXPECT_EQ(trainer.options().accumulate, plan.division.accumulate);
    const Forecast forecast = trainer.rehearse(profile);
    EXPECT_EQ(forecast.peak.reserved, plan.peak_bytes_reserved);
    trainer.check(plan, profile);        // also once it is followed
    TrainerOptions by_hand = options();  // whose place it takes
    by_hand.recomputes = {{"none", "nothing", {}}, {"all", "all layers", {{"**", recompute_all()}}}};
    by_hand.recompute = "all";
    Trainer following(deep(), by_hand);
    following.apply(plan);
    EXPECT_EQ(following.options().recompute, "none");
    EXPECT_EQ(following.rehearse(profile).peak.reserved, plan.peak_bytes_reserved);
    EXPECT_EQ(following.rehearse(profile).replayed_ops, forecast.replayed_ops);

    plan::Plan other = plan;
    other.program[3].digest = "0123456789abcdef";
    EXPECT_THAT([&] { trainer.check(other, profile); }, ThrowsMessage<Error>(HasSubstr("its op 3 is")));
    TrainerOptions half = options();
    half.stop_after = 1;
    half.save = path("half.safetensors");
    run(half);
    half.resume = half.save;
    EXPECT_THAT([&] { Trainer(deep(), half).check(plan, profile); },
                ThrowsMessage<Error>(HasSubstr("a resumed training keeps its 1 of 1018")));
    other = plan;
    other.division = {kBatch, 2};
    EXPECT_THAT([&] { Trainer(deep(), half).check(other, profile); },
                ThrowsMessage<Error>(HasSubstr("the plan has 2 micro-batches of 1018 samples")));
}

TEST_F(BudgetTest, IsPlannedWithoutADevice) {
    TrainerOptions budgeted = options();
    budgeted.split_batch = false;
    budgeted.memory_history = path("history.json");
    const Report kept = run(options());
    budgeted.budget = kept.peak_bytes_reserved * 3 / 4;
    Trainer trainer(deep(), budgeted);
    Context dry = Context::dry(Context::cpu({.threads = 1, .seed = 5}).profile());
    const Report report = trainer.run(dry);
    ASSERT_TRUE(report.planned);
    EXPECT_EQ(report.forecast.peak.reserved, report.planned->plan.peak_bytes_reserved);
    EXPECT_LE(report.forecast.peak.reserved, budgeted.budget);
    // A plan is found anew, not on top of the one that is followed.
    const Planned again = trainer.plan(dry.profile());
    EXPECT_EQ(again.keep_all_bytes, kept.peak_bytes_reserved);
    EXPECT_EQ(again.plan.replayed_ops, report.planned->plan.replayed_ops);
}

TEST_F(BudgetTest, NamesTheLeastOfSmallerBatchesWhereOnlyThatIsRefused) {
    const Profile profile = Context::cpu({.threads = 1, .seed = 5}).profile();
    TrainerOptions tight = options();
    tight.batch = 2 * 251;
    tight.accumulate = 2;
    tight.budget = std::size_t{1} << 30;
    const auto with = [&](std::optional<bool> split_batch, const std::string& resume = {}) {
        TrainerOptions changed = tight;
        changed.split_batch = split_batch;
        changed.resume = resume;
        return Trainer(deep(), changed);
    };
    const Planned kept = with(false).plan(profile);
    ASSERT_LT(kept.floor_bytes, kept.keep_all_bytes);
    TrainerOptions single = tight;
    single.batch = 1;
    single.accumulate = 2 * tight.batch;
    const std::size_t least = Trainer(deep(), single).plan(profile).floor_bytes;
    tight.budget = 1;
    const auto refused = [&](const Trainer& trainer) -> plan::BudgetTooSmall {
        try {
            trainer.plan(profile);
        } catch (const plan::BudgetTooSmall& error) {
            return error;
        }
        throw Error("it was planned");
    };
    const plan::BudgetTooSmall whole = refused(with(false));
    EXPECT_EQ(whole.budget(), 1u);
    EXPECT_EQ(whole.least(), kept.floor_bytes);
    EXPECT_EQ(whole.keep_all(), kept.keep_all_bytes);
    EXPECT_EQ(whole.least_split(), least);
    EXPECT_FALSE(refused(with(true)).least_split()) << "those were among the plans";
    TrainerOptions first = tight;
    first.budget = 0;
    first.stop_after = 1;
    first.save = path("first.safetensors");
    run(first);
    for (const std::optional<bool> split : {std::optional<bool>(), std::optional(false), std::optional(true)})
        EXPECT_FALSE(refused(with(split, first.save)).least_split()) << "a training that is resumed keeps its batch";
}

/// On how long ops take nothing is said here.
TEST_F(BudgetTest, OpsAreMeasuredWithinIt) {
    TrainerOptions budgeted = options();
    budgeted.split_batch = false;
    budgeted.budget = run(options()).peak_bytes_reserved * 3 / 4;
    budgeted.recomputes = {{"none", "nothing", {}}, {"all", "all", {{"**", recompute_all()}}}};
    budgeted.recompute = "all";  // which plans, that are measured, have in place of it
    Context context = Context::cpu({.threads = 1, .seed = 5});
    EXPECT_TRUE(Trainer(deep(), budgeted).calibrate(context).measured());
    EXPECT_LE(context.memory().peak().reserved, budgeted.budget);
}

TEST_F(BudgetTest, RefusesWhatAPlanCanNotFollow) {
    const Profile profile = Context::cpu({.threads = 1}).profile();
    const Trainer without(deep(), options());
    EXPECT_THAT([&] { without.plan(profile); }, ThrowsMessage<Error>(HasSubstr("a plan needs .budget")));
    TrainerOptions by_hand = options();
    by_hand.budget = std::size_t{1} << 30;
    by_hand.recomputes = {{"none", "nothing", {}}, {"all", "all", {{"**", recompute_all()}}}};
    by_hand.recompute = "all";
    const Trainer recomputing(deep(), by_hand);
    EXPECT_THAT([&] { recomputing.plan(profile); }, ThrowsMessage<Error>(HasSubstr(".recompute = all")));
    by_hand.recompute = "none";
    by_hand.budget = std::size_t{1} << 60;
    const Trainer boundless(deep(), by_hand);
    EXPECT_THAT([&] { boundless.plan(profile); }, ThrowsMessage<Error>(HasSubstr("the device has")));
    by_hand.budget = std::size_t{2} << 20;
    EXPECT_THROW(Trainer(deep(), by_hand).plan(profile), plan::BudgetTooSmall);
}

}  // namespace budget_test
}  // namespace headroom::training
