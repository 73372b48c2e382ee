// Ranks, as threads, of which each keeps its share of the optimizer's state, or of the gradients as well: what they
// train, save and take. With sharded gradients every number of ranks gives the bits of one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom {
namespace {

using dist::run_ranks;
using testing::ThrowsMessage;

/// What is trained, and how.
struct Case {
    Shard shard = Shard::gradients;
    std::int64_t micro_batches = 8, layers = 2, width = 32;
    double dropout = 0.2, clip = 0.5;
    bool sgd = false, average = false, recompute = false, frozen = false;
    bool uneven = true;  ///< micro-batches of one and two rows
    std::uint64_t seed = 7;

    friend std::ostream& operator<<(std::ostream& stream, const Case& c) {
        return stream << name(c.shard) << ", " << c.micro_batches << " micro-batches, " << c.layers << " layers, width "
                      << c.width << ", dropout " << c.dropout << ", clip " << c.clip << (c.sgd ? ", sgd" : "")
                      << (c.average ? ", average" : "") << (c.recompute ? ", recompute" : "")
                      << (c.frozen ? ", frozen" : "") << ", seed " << c.seed;
    }
};

struct Outcome {
    std::string state;
    std::vector<double> losses, norms;
    std::size_t peak = 0, reserved = 0, optimizer_state = 0;
};

/// A GPT's steps on noise, of a training that a file may begin and end.
class Training {
  public:
    static constexpr std::int64_t kVocabulary = 11, kBlock = 8;

    Training(Context& context, const Case& how)
        : context_(context),
          how_(how),
          parameters_(context, {.shard = how.shard}),
          model_(parameters_, {.vocabulary = kVocabulary,
                               .block = kBlock,
                               .layers = how.layers,
                               .heads = 2,
                               .width = how.width,
                               .dropout = how.dropout}) {
        if (how.recompute) context.policy("blocks.*", recompute_all());
        if (how.frozen) parameters_.freeze("**.mlp.**");
        if (how.sgd) {
            optimizer_ = std::make_unique<optim::Sgd>(parameters_, optim::SgdOptions{.momentum = 0.9});
        } else {
            optimizer_ = std::make_unique<optim::AdamW>(
                parameters_, optim::AdamWOptions{.weight_decay = 0.1,
                                                 .groups = {{.pattern = "**.bias", .learning_rate_factor = 3}}});
        }
        accumulator_.emplace(parameters_, *optimizer_, optim::GradientAccumulatorOptions{.clip = how.clip});
        if (how.average) average_.emplace(parameters_, optim::MovingAverageOptions{.decay = 0.9});
    }

    void steps(int count) {
        while (count-- > 0) step();
    }
    /// Of all that can be saved.
    files::CheckpointParts parts() {
        files::CheckpointParts parts{parameters_, *optimizer_, *accumulator_};
        if (average_) parts.emplace_back(*average_);
        return parts;
    }
    Parameters& parameters() { return parameters_; }
    Outcome outcome() {
        const MemoryStatistics memory = context_.memory().statistics();
        outcome_.peak = memory.peak_allocated;
        outcome_.reserved = memory.peak_reserved;
        outcome_.optimizer_state = memory.allocated_by_category[static_cast<std::size_t>(Category::optimizer_state)];
        if (!context_.dry()) outcome_.state = files::state_sha256(context_, parts());
        return outcome_;
    }

  private:
    void step() {
        accumulator_->begin_step({.micro_batches = how_.micro_batches, .learning_rate = 0.01});
        while (accumulator_->wants_more()) accumulator_->accumulate([&] { return micro_batch(); });
        accumulator_->step();
        if (average_) average_->update();
        const optim::StepResult result = accumulator_->result();
        outcome_.losses.push_back(result.loss);
        outcome_.norms.push_back(result.gradient_norm);
    }
    Loss micro_batch() {
        // By the micro-batch's number, as a loader has it.
        const std::uint64_t number = context_.random_counter();
        std::mt19937_64 random(number * 977 + how_.seed);
        const std::int64_t rows = how_.uneven ? 1 + static_cast<std::int64_t>(number % 2) : 2;
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(2 * kBlock));
        for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % kVocabulary);
        tokens.resize(static_cast<std::size_t>(rows * kBlock));
        std::vector<std::int32_t> targets = tokens;
        std::ranges::reverse(targets);
        return model_.loss(context_.from_host(tokens, {rows, kBlock}), context_.from_host(targets, {rows, kBlock}));
    }

    Context& context_;
    Case how_;
    Parameters parameters_;
    nn::Gpt model_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    std::optional<optim::GradientAccumulator> accumulator_;
    std::optional<optim::MovingAverage> average_;
    Outcome outcome_;
};

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

/// Of a layer whose second weight no micro-batch of an odd number reaches, and whose batches are as many as there are.
std::string of_uneven_work(Context& context) {
    Parameters parameters(context, {.shard = Shard::gradients});
    const nn::Path root(parameters);
    const nn::Conv2d conv(root / "conv", 2, 300, 3);
    const nn::BatchNorm2d norm(root / "norm", 300);
    const Tensor other = parameters.create("other", {1000}, nn::init::ones());
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    for (int step = 0; step < 3; ++step) {
        accumulator.begin_step({.micro_batches = 7, .learning_rate = 0.01});
        while (accumulator.wants_more()) {
            accumulator.accumulate([&] {
                const std::uint64_t number = context.random_counter();
                const auto images = static_cast<std::int64_t>(1 + number % 3);
                std::vector<float> x(static_cast<std::size_t>(images * 2 * 25));
                for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * 7 + 31 * number));
                Tensor loss = sum(norm(conv(context.from_host(x, {images, 2, 5, 5}))) *
                                  norm(conv(context.from_host(x, {images, 2, 5, 5}))));
                if (number % 2 == 0) loss = loss + sum(other * other);
                return Loss(loss, static_cast<double>(images));
            });
        }
        accumulator.step();
    }
    return files::state_sha256(context, {parameters, optimizer});
}

TEST(ShardedGradients, AreTheSameForUnevenMicroBatchesAndRunningStatistics) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    const std::string one = of_uneven_work(context);
    for (const int ranks : {2, 3, 4, 7}) {
        for (const std::string& rank : in_ranks(ranks, 5, of_uneven_work)) EXPECT_EQ(rank, one) << ranks;
    }
}

class InBlocks : public optim::Optimizer {
  public:
    explicit InBlocks(Parameters& parameters)
        : Optimizer(parameters, "blocks", {{.name = "count", .dtype = Dtype::i32, .block = 32}}, 0.0, {}) {}

  private:
    void update(const Range&, const Array&) override {}
};

TEST(ShardedTraining, RefusesWhatCannotBeShared) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context, {.shard = Shard::gradients});
    const Tensor w = parameters.create("w", {2}, nn::init::ones());
    EXPECT_THAT([&] { InBlocks optimizer(parameters); },
                ThrowsMessage<Error>("blocks: its state is in blocks of elements, which can't be sharded"));
    optim::AdamW optimizer(parameters);
    EXPECT_THAT([&] { optim::GradientAccumulator(parameters, optimizer, {.keep_gradients = true}); },
                ThrowsMessage<Error>("accumulator: keep_gradients: of sharded parameters no rank has all gradients"));
    optim::GradientAccumulator accumulator(parameters, optimizer);
    EXPECT_THAT([&] { accumulator.on_complete([](const GradientSegment&) {}); },
                ThrowsMessage<Error>("accumulator: on_complete: sharded gradients are at their owners when a step is "
                                     "complete"));
    accumulator.accumulate([&] { return Loss(sum(w), 1.0); });
    EXPECT_THAT(
        [&] { parameters.freeze("w"); },
        ThrowsMessage<Error>("freeze \"w\": gradients have arrived; do it after the step, or call zero_grad()"));
    accumulator.reset();
    EXPECT_THAT([&] { accumulator.skip(1); }, ThrowsMessage<Error>("accumulator: 1 micro-batches can't be left out"));
    EXPECT_THAT([&] { optimizer.step(0.1); },
                ThrowsMessage<Error>("adamw: a trained parameter has no gradient; call fill_unreached() before"));
}

}  // namespace
}  // namespace headroom
