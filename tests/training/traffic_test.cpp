// What ranks report of themselves is what each of them did: the traffic of its last step, as a session by hand has it,
// and the memory that a rehearsal of that rank predicts.
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/group.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/metrics.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace traffic_test {

constexpr std::int64_t kSteps = 3;

/// Its parameters are cut into shares of other sizes.
class Uneven final : public test::OneLayerTask {
  public:
    Uneven(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {
        parameters.create("table", {1000, 7}, nn::init::ones());
    }
};

TrainerOptions of(Shard shard) {
    return {.accumulate = 5, .steps = kSteps, .shard = shard, .handle_signals = false, .print = false};
}

using Traffic = Group::Traffic;

/// By rank: between the beginning of the last step and its end.
std::vector<Traffic> by_hand(int ranks, Shard shard) {
    std::vector<Traffic> all(static_cast<std::size_t>(ranks));
    dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
        Session session(context, task<Uneven>(), of(shard));
        for (std::int64_t step = 1; step < kSteps; ++step) session.step();
        const Traffic before = group->traffic();
        session.step();
        all[static_cast<std::size_t>(group->rank())] = {.sent_bytes = group->traffic().sent_bytes - before.sent_bytes,
                                                        .exchanges = group->traffic().exchanges - before.exchanges};
    });
    return all;
}

TEST(Traffic, IsThatOfTheLastStepOfEachRank) {
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients}) {
        for (const int ranks : {2, 3}) {
            SCOPED_TRACE(testing::Message() << ranks << " ranks, shard " << name(shard));
            const std::vector<Traffic> expected = by_hand(ranks, shard);
            std::vector<Report> reports(static_cast<std::size_t>(ranks));
            std::vector<double> waited(reports.size());
            dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
                Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
                const auto rank = static_cast<std::size_t>(group->rank());
                reports[rank] = Trainer(task<Uneven>(), of(shard)).run(context);
                waited[rank] = group->traffic().seconds_waited;
            });
            for (const Report& report : reports) {
                ASSERT_EQ(report.ranks.size(), reports.size());
                for (std::size_t rank = 0; rank < reports.size(); ++rank) {
                    const RankReport& own = report.ranks[rank];
                    EXPECT_EQ(own.sent_bytes, expected[rank].sent_bytes) << rank;
                    EXPECT_EQ(own.exchanges, expected[rank].exchanges) << rank;
                    EXPECT_GT(own.seconds_waited, 0) << rank;
                    EXPECT_LE(own.seconds_waited, waited[rank]) << rank;
                    EXPECT_EQ(own.peak_bytes_allocated, reports[rank].peak_bytes_allocated) << rank;
                    EXPECT_EQ(own.peak_bytes_reserved, reports[rank].peak_bytes_reserved) << rank;
                }
            }
            for (std::size_t rank = 0; rank < reports.size(); ++rank) {
                EXPECT_EQ(reports[rank].last_step.sent_bytes, expected[rank].sent_bytes) << rank;
                EXPECT_EQ(reports[rank].last_step.exchanges, expected[rank].exchanges) << rank;
                // Of gradients, or of what is made of them, each of them sends most of what is not its own.
                EXPECT_GT(expected[rank].sent_bytes, 7000 * sizeof(float) / static_cast<std::size_t>(ranks));
                EXPECT_LT(expected[rank].exchanges, 1000u);
            }
        }
    }
}

using Points = data::MemoryDataset<std::int32_t>;

/// Validates on a batch of 8 samples and on one of 3, with more memory for a sample than a step takes.
class ShortLast final : public DataTask<Points> {
  public:
    ShortLast(Parameters& parameters, std::int64_t batch)
        : DataTask(parameters, shuffled(points(16), points(11), batch, 7)), model_(nn::Path(parameters), 1, 1) {}
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), 8); }
    Validation validate(const ProgressCallback& watch) override {
        MeanLoss mean;
        each_validation_batch(watch, std::tie(mean), [&](const Batch& batch, const Points::Batch&) {
            const Tensor taken = ones(context(), {batch[0].size(0), std::int64_t{1} << 18});
            mean.add(loss(batch));
        });
        return {.loss = mean.value()};
    }

  private:
    static Points points(std::size_t count) {
        return {std::vector<float>(count, 1.0f), {1}, std::vector<std::int32_t>(count)};
    }
    nn::Linear model_;
};

/// Two ranks that have as many batches of the validation may have another number of samples.
TEST(RanksRehearsed, KnowTheLastBatchOfTheValidation) {
    const TrainerOptions options{.batch = 8, .accumulate = 2, .steps = 2, .handle_signals = false, .print = false};
    Profile profile = Context::cpu({.threads = 1}).profile();
    profile.ranks = 2;
    const Trainer trainer(task<ShortLast>(), options);
    const std::vector<RankReport> rehearsed = trainer.rehearse_ranks(profile);
    ASSERT_EQ(rehearsed.size(), 2u);
    EXPECT_LT(rehearsed[1].predicted_bytes_allocated, rehearsed[0].predicted_bytes_allocated);
    for (; profile.rank < profile.ranks; ++profile.rank) {
        EXPECT_EQ(rehearsed[static_cast<std::size_t>(profile.rank)].predicted_bytes_allocated,
                  trainer.rehearse(profile).peak.allocated)
            << profile.rank;
    }
}

TEST(RanksRehearsed, AreEachAsOneThatIsRehearsedAloneAndAsMeasured) {
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients}) {
        for (const int ranks : {2, 3, 5}) {
            SCOPED_TRACE(testing::Message() << ranks << " ranks, shard " << name(shard));
            Profile profile = Context::cpu({.threads = 1, .seed = 5}).profile();
            profile.ranks = ranks;
            const Trainer trainer(task<Uneven>(), of(shard));
            const std::vector<RankReport> rehearsed = trainer.rehearse_ranks(profile);
            std::vector<RankReport> measured;
            dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
                Context context = Context::cpu({.threads = 1, .seed = 5, .group = group});
                const Report report = Trainer(task<Uneven>(), of(shard)).run(context);
                if (group->rank() == 0) measured = report.ranks;
            });
            ASSERT_EQ(std::ssize(rehearsed), ranks);
            ASSERT_EQ(std::ssize(measured), ranks);
            for (profile.rank = 0; profile.rank < ranks; ++profile.rank) {
                const RankReport &one = rehearsed[static_cast<std::size_t>(profile.rank)],
                                 &other = measured[static_cast<std::size_t>(profile.rank)];
                const Forecast alone = trainer.rehearse(profile);
                EXPECT_EQ(one.predicted_bytes_allocated, alone.peak.allocated) << profile.rank;
                EXPECT_EQ(one.predicted_bytes_reserved, alone.peak.reserved) << profile.rank;
                EXPECT_EQ(one.parameter_bytes, alone.parameter_bytes) << profile.rank;
                EXPECT_EQ(one.optimizer_state_bytes, alone.optimizer_state_bytes) << profile.rank;
                EXPECT_EQ(other.predicted_bytes_allocated, alone.peak.allocated) << profile.rank;
                EXPECT_EQ(other.predicted_bytes_reserved, alone.peak.reserved) << profile.rank;
                EXPECT_EQ(other.peak_bytes_allocated, alone.peak.allocated) << profile.rank;
                EXPECT_EQ(other.peak_bytes_reserved, alone.peak.reserved) << profile.rank;
                EXPECT_EQ(other.parameter_bytes, alone.parameter_bytes) << profile.rank;
                EXPECT_EQ(other.optimizer_state_bytes, alone.optimizer_state_bytes) << profile.rank;
            }
            EXPECT_EQ(rehearsed[0].optimizer_state_bytes < 2 * rehearsed[0].parameter_bytes, shard != Shard::none);
            if (ranks < 5) continue;  // else each has a micro-batch, so that their shares alone differ
            EXPECT_EQ(rehearsed[0].optimizer_state_bytes != rehearsed[1].optimizer_state_bytes, shard != Shard::none);
        }
    }
}

}  // namespace traffic_test
}  // namespace headroom::training
