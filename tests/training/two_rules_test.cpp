// A trainer whose parameters are updated by two rules: it is rehearsed, planned, saved and shared out as one.
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/deep_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace two_rules_test {

/// Some layers by SGD, which keeps a velocity, and the rest by AdamW.
TrainerOptions options(std::int64_t batch = test::kDeepBatch) {
    const auto momentum = optim::sgd_rule({.momentum = 0.9});
    optim::AdamWOptions both;
    for (const char* pattern : {"layer0.**", "layer1.**", "layer7.**"})
        both.groups.push_back({.pattern = pattern, .rule = momentum});
    return {.batch = batch,
            .steps = 4,
            .optimizer = adamw(both),
            .schedule = {.peak = 1e-3},
            .clip = 0.5,
            .handle_signals = false,
            .print = false};
}

Report run(const TrainerOptions& options, std::shared_ptr<Group> group = nullptr) {
    Context context = Context::cpu({.threads = 1, .seed = 5, .group = std::move(group)});
    return Trainer(task<test::Deep>(test::deep_points()), options).run(context);
}

void expect_predicted(const Report& report) {
    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    EXPECT_EQ(report.peak_bytes_reserved, report.forecast.peak.reserved);
}

TEST(TrainerOfTwoRules, TakesWhatWasPredictedAndLessThanByAdamWAlone) {
    const Report mixed = run(options());
    expect_predicted(mixed);
    TrainerOptions plain = options();
    plain.optimizer = adamw();
    const Report of_adamw = run(plain);
    EXPECT_LT(mixed.forecast.optimizer_state_bytes, of_adamw.forecast.optimizer_state_bytes);
    EXPECT_NE(mixed.state_sha256, of_adamw.state_sha256);
}

TEST(TrainerOfTwoRules, IsPlannedWithinABudgetAndHasTheBitsOfKeepingAll) {
    const Report kept = run(options());
    TrainerOptions budgeted = options();
    budgeted.split_batch = false;
    budgeted.budget = kept.peak_bytes_reserved * 3 / 4;
    const Report planned = run(budgeted);
    ASSERT_TRUE(planned.planned);
    EXPECT_LE(planned.peak_bytes_reserved, budgeted.budget);
    EXPECT_EQ(planned.peak_bytes_reserved, planned.planned->plan.peak_bytes_reserved);
    EXPECT_GT(planned.last_step.replayed_ops, 0u);
    EXPECT_EQ(planned.state_sha256, kept.state_sha256);
    expect_predicted(planned);
}

TEST(TrainerOfTwoRules, GoesOnBitForBit) {
    const test::ScratchFolder folder;
    const Report whole = run(options());
    TrainerOptions part = options();
    part.save = folder.path() / "part";
    part.stop_after = 2;
    EXPECT_EQ(run(part).steps, 2);
    TrainerOptions rest = options();
    rest.resume = part.save;
    const Report resumed = run(rest);
    EXPECT_EQ(resumed.state_sha256, whole.state_sha256);
    expect_predicted(resumed);
    rest.optimizer = adamw();
    EXPECT_THAT([&] { run(rest); }, test::throws<Error>("lacks adamw.first_moment.layer0"));
}

TEST(TrainerOfTwoRules, HasOneResultForAnyNumberOfRanksThatShareItsState) {
    TrainerOptions shared = options(test::kDeepBatch / 2);
    shared.accumulate = 2;
    shared.shard = Shard::gradients;
    const Report alone = run(shared);
    std::vector<std::string> states(2);
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        const Report report = run(shared, group);
        states[static_cast<std::size_t>(group->rank())] = report.state_sha256;
        expect_predicted(report);
    });
    EXPECT_EQ(states, std::vector<std::string>(2, alone.state_sha256));
}

}  // namespace two_rules_test
}  // namespace headroom::training
