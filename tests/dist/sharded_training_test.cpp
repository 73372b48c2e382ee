// Ranks, as threads, of which each keeps its share of the optimizer's state, or of the gradients as well: what they
// train, save and take. With sharded gradients every number of ranks gives the bits of one.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/dist/training.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom {
namespace sharded_training_test {

using dist::run_ranks;
using test::Case;
using test::of_uneven_work;
using test::Outcome;
using test::Training;
using testing::NanSensitiveDoubleEq;
using testing::Pointwise;
using testing::ThrowsMessage;

/// `work` in each of several ranks, by rank.
template <class Work>
auto in_ranks(int ranks, std::uint64_t seed, const Work& work) {
    std::vector<decltype(work(std::declval<Context&>()))> all(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .seed = seed, .group = group});
        all[static_cast<std::size_t>(group->rank())] = work(context);
    });
    return all;
}

Outcome alone(const Case& how, int steps) {
    Context context = Context::cpu({.threads = 1, .seed = how.seed});
    Training training(context, how);
    training.steps(steps);
    return training.outcome();
}

std::vector<Outcome> together(int ranks, const Case& how, int steps) {
    return in_ranks(ranks, how.seed, [&](Context& context) {
        Training training(context, how);
        training.steps(steps);
        return training.outcome();
    });
}

TEST(ShardedGradients, GiveTheSameBitsWithAnyNumberOfRanks) {
    const auto seed = static_cast<std::uint64_t>(test::random_seed());
    for (const Case& how : {Case{.seed = seed}, Case{.micro_batches = 11, .sgd = true, .average = true, .seed = seed},
                            Case{.micro_batches = 9, .clip = 0, .recompute = true, .frozen = true, .seed = seed}}) {
        SCOPED_TRACE(testing::PrintToString(how));
        const Outcome one = alone(how, 3);
        for (const int ranks : {1, 2, 3, 4, 8}) {
            for (const Outcome& rank : together(ranks, how, 3)) {
                EXPECT_EQ(rank.state, one.state) << ranks;
                EXPECT_EQ(rank.losses, one.losses) << ranks;
                EXPECT_THAT(rank.some, Pointwise(NanSensitiveDoubleEq(), one.some)) << ranks;
                EXPECT_EQ(rank.norms, one.norms) << ranks;
            }
        }
    }
}

// The parts of a sum, cut by another count of processes, would be other bits; and with one micro-batch more, other
// sums.
TEST(ShardedGradients, DependOnTheMicroBatches) {
    EXPECT_NE(alone({.micro_batches = 8}, 2).state, alone({.micro_batches = 9}, 2).state);
}

// What one process trains without shards is the same but for the order of its sums.
TEST(ShardedTraining, TrainsAsOneProcess) {
    for (const Shard shard : {Shard::state, Shard::gradients}) {
        const Outcome whole = alone({.shard = Shard::none}, 3);
        const std::vector<Outcome> ranks = together(3, {.shard = shard}, 3);
        EXPECT_EQ(ranks[0].losses[0], whole.losses[0]);
        for (std::size_t step = 0; step < 3; ++step) {
            EXPECT_NEAR(ranks[0].losses[step], whole.losses[step], 1e-6) << name(shard);
            EXPECT_NEAR(ranks[0].norms[step], whole.norms[step], 1e-6 * whole.norms[step]) << name(shard);
        }
        for (const Outcome& rank : ranks) EXPECT_EQ(rank.state, ranks[0].state);
        EXPECT_EQ(together(3, {.shard = shard}, 3)[1].state, ranks[0].state);
    }
}

TEST(ShardedTraining, TakesTheMemoryThatIsRehearsed) {
    std::mt19937 random(static_cast<unsigned>(test::random_seed()));
    const auto draw = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const char* const wanted = std::getenv("HEADROOM_FUZZ_RANKS");  // .ci/nightly draws 500
    const std::int64_t configurations = wanted ? std::atoi(wanted) : 40;
    for (std::int64_t i = 0; i < configurations; ++i) {
        const int ranks = static_cast<int>(draw(1, 6));
        const Case how{.shard = static_cast<Shard>(draw(0, 2)),
                       .micro_batches = draw(ranks, 3 * ranks + 1),
                       .layers = draw(1, 3),
                       .width = 16 * draw(1, 4),
                       .dropout = draw(0, 1) * 0.1,
                       .clip = draw(0, 1) * 0.5,
                       .sgd = draw(0, 3) == 0,
                       .average = draw(0, 3) == 0,
                       .recompute = draw(0, 1) == 0,
                       .frozen = draw(0, 3) == 0,
                       .uneven = false};
        SCOPED_TRACE(testing::Message() << ranks << " ranks: " << how);
        const std::vector<Outcome> real = together(ranks, how, 3);
        for (int rank = 0; rank < ranks; ++rank) {
            Profile profile = Context::cpu({.threads = 1, .seed = how.seed}).profile();
            profile.rank = rank;
            profile.ranks = ranks;
            Context dry = Context::dry(profile);
            Training training(dry, how);
            training.steps(3);
            const Outcome rehearsed = training.outcome();
            ASSERT_EQ(rehearsed.peak, real[static_cast<std::size_t>(rank)].peak) << rank;
            ASSERT_EQ(rehearsed.reserved, real[static_cast<std::size_t>(rank)].reserved) << rank;
        }
    }
}

// So that it takes what a dry run of one rank takes.
TEST(ShardedTraining, OfOneRankIsThatOfOneProcess) {
    run_ranks(1, [](const std::shared_ptr<Group>& group) {
        EXPECT_EQ(Context::cpu({.threads = 1, .group = group}).group(), nullptr);
    });
    const Case how{.micro_batches = 4, .layers = 3, .width = 64};
    EXPECT_EQ(together(1, how, 3)[0].peak, alone(how, 3).peak);
}

/// The peak of one of two ranks, and the bytes of its parameters.
std::pair<std::size_t, std::size_t> rehearsed(Shard shard) {
    Profile profile = Context::cpu({.threads = 1}).profile();
    profile.ranks = 2;
    Context dry = Context::dry(profile);
    Training training(dry, {.shard = shard, .layers = 8, .width = 64, .dropout = 0});
    training.steps(2);
    return {training.outcome().peak,
            dry.memory().statistics().allocated_by_category[static_cast<std::size_t>(Category::parameters)]};
}

// All gradients at once, and half of their sums, would be more than what the other arrangement has.
TEST(ShardedGradients, GiveTheirMemoryBackWhileBackwardGoesOn) {
    const auto [peak, parameters] = rehearsed(Shard::gradients);
    EXPECT_LT(peak + parameters / 4, rehearsed(Shard::state).first);
}

TEST(ShardedTraining, SharesTheOptimizersState) {
    const Case how{.shard = Shard::state, .layers = 3, .width = 128};
    const std::size_t whole = alone(how, 1).optimizer_state;
    for (const int ranks : {2, 3, 8}) {
        for (const Outcome& rank : together(ranks, how, 1)) {
            const double share = std::ceil(64.0 / ranks) / 64;
            EXPECT_LE(static_cast<double>(rank.optimizer_state), share * static_cast<double>(whole) + 65536) << ranks;
        }
    }
}

TEST(ShardedTraining, FilesAreWholeAndAnyNumberOfRanksGoesOn) {
    const test::ScratchFolder folder;
    const Case how{.micro_batches = 8, .average = true};
    const Outcome uninterrupted = alone(how, 6);
    const auto continued = [&](int ranks, const char* from, const char* to, int steps) {
        const auto all = in_ranks(ranks, how.seed, [&](Context& context) {
            Training training(context, how);
            if (from) files::load_checkpoint(folder.path() / from, context, training.parts());
            training.steps(steps);
            if (to) files::save_checkpoint(folder.path() / to, context, training.parts());
            return training.outcome();
        });
        return all[0].state;
    };
    continued(3, nullptr, "a", 2);
    continued(1, "a", "b", 2);
    EXPECT_EQ(continued(4, "b", "c", 2), uninterrupted.state);
    // The same tensors as one process without shards would read, with no name of a rank or a piece.
    Context context = Context::cpu({.threads = 1, .seed = how.seed});
    Case unsharded = how;
    unsharded.shard = Shard::none;
    Training training(context, unsharded);
    files::load_checkpoint(folder.path() / "c", context, training.parts());
    EXPECT_EQ(training.outcome().state, uninterrupted.state);
}

// Images are convolved in an order of memory that files do not have.
TEST(ShardedTraining, FilesHaveNoOrderOfMemory) {
    const test::ScratchFolder folder;
    const auto trained = [&](int ranks, bool from, int steps) {
        return in_ranks(ranks, 3, [&](Context& context) {
            Parameters parameters(context, {.shard = Shard::gradients});
            const nn::Conv2d conv(nn::Path(parameters) / "conv", 3, 200, 3);
            optim::AdamW optimizer(parameters);
            optim::GradientAccumulator accumulator(parameters, optimizer);
            if (from) files::load_checkpoint(folder.path() / "a", context, {parameters, optimizer, accumulator});
            for (int step = 0; step < steps; ++step) {
                accumulator.begin_step({.micro_batches = 6, .learning_rate = 0.01});
                while (accumulator.wants_more()) {
                    std::vector<float> x(3 * 25);
                    for (std::size_t i = 0; i < x.size(); ++i)
                        x[i] = std::sin(static_cast<float>(i + 31 * context.random_counter()));
                    accumulator.accumulate([&] { return Loss(sum(conv(context.from_host(x, {1, 3, 5, 5}))), 1); });
                }
                accumulator.step();
            }
            if (!from) files::save_checkpoint(folder.path() / "a", context, {parameters, optimizer, accumulator});
            return files::state_sha256(context, {parameters, optimizer});
        })[0];
    };
    const std::string saved = trained(2, false, 2);
    for (const int ranks : {1, 2, 3}) EXPECT_EQ(trained(ranks, true, 0), saved) << ranks;
}

// Parameters that are unfrozen later get their state where their share is: vectors, which lie behind a segment's
// matrices.
TEST(ShardedTraining, FreezesBetweenSteps) {
    const Case how{.width = 128};
    const auto train = [&](Context& context) {
        Training training(context, how);
        training.parameters().freeze("**.bias");
        training.steps(2);
        training.parameters().freeze("**.bias", false);
        training.parameters().freeze("blocks.0.attention.**");
        training.steps(2);
        return training.outcome();
    };
    Context context = Context::cpu({.threads = 1, .seed = how.seed});
    const Outcome one = train(context);
    for (const int ranks : {2, 5}) {
        for (const Outcome& rank : in_ranks(ranks, how.seed, train)) EXPECT_EQ(rank.state, one.state) << ranks;
    }
}

TEST(ShardedGradients, AreTheSameForUnevenMicroBatchesAndRunningStatistics) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    const std::string one = of_uneven_work(context);
    for (const int ranks : {2, 3, 4, 7}) {
        for (const std::string& rank : in_ranks(ranks, 5, [](Context& rank) { return of_uneven_work(rank); }))
            EXPECT_EQ(rank, one) << ranks;
    }
}

class InBlocks : public optim::UpdateRule {
  public:
    InBlocks() : UpdateRule("blocks", {{.name = "count", .dtype = Dtype::i32, .block = 32}}) {}
    void update(Exec&, const Range&, const View&) const override {}
};

TEST(ShardedTraining, RefusesWhatCannotBeShared) {
    Context context = Context::cpu({.threads = 1});
    Parameters with_shared_state(context, {.name = "other", .shard = Shard::state});
    with_shared_state.create("w", {2}, nn::init::ones());
    EXPECT_THAT([&] { optim::Optimizer(with_shared_state, std::make_shared<InBlocks>()); },
                ThrowsMessage<Error>("blocks: sharding does not work with state that covers blocks of elements; use "
                                     "another optimizer or Shard::none"));
    Parameters parameters(context, {.shard = Shard::gradients});
    const Tensor w = parameters.create("w", {2}, nn::init::ones());
    EXPECT_THAT([&] { optim::Optimizer(parameters, std::make_shared<InBlocks>()); },
                ThrowsMessage<Error>("blocks: sharding does not work with state that covers blocks of elements; use "
                                     "another optimizer or Shard::none"));
    optim::AdamW optimizer(parameters);
    EXPECT_THAT(
        [&] { optim::GradientAccumulator(parameters, optimizer, {.keep_gradients = true}); },
        ThrowsMessage<Error>(
            "accumulator: keep_gradients does not work with sharded parameters, because no rank has all gradients"));
    optim::GradientAccumulator accumulator(parameters, optimizer);
    EXPECT_THAT([&] { accumulator.on_complete([](const GradientSegment&) {}); },
                ThrowsMessage<Error>("accumulator: on_complete does not work with sharded gradients, because each rank "
                                     "gets only its own shard"));
    accumulator.accumulate([&] { return Loss(sum(w), 1.0); });
    EXPECT_THAT(
        [&] { parameters.freeze("w"); },
        ThrowsMessage<Error>("freeze \"w\": parameters have gradients; freeze after the step, or call zero_grad()"));
    accumulator.reset();
    EXPECT_THAT([&] { accumulator.skip(1); },
                ThrowsMessage<Error>("accumulator: skip needs a dry context and 0 to 0 micro-batches, got 1"));
    EXPECT_THAT([&] { optimizer.step(0.1); },
                ThrowsMessage<Error>("adamw: w has no gradient; call fill_unreached() first"));
}

}  // namespace sharded_training_test
}  // namespace headroom
