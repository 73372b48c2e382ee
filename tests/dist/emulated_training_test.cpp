// What ranks with an emulated GPU each train over NCCL has the bits of one rank, and of ranks whose bytes go through
// the host, in all orders that a GPU may choose; exchanges go on beside the computation.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/apply.hpp>
#include <headroom/core/context.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/dist/emulated_gpus.hpp>
#include <headroom/tests/dist/training.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom {
namespace emulated_training_test {

using test::Case;
using test::EmulatedOrder;
using test::Engine;
using test::kOrders;
using test::of_uneven_work;
using test::on_gpus;
using test::Outcome;
using test::Training;
using testing::HasSubstr;
using testing::NanSensitiveDoubleEq;
using testing::Pointwise;
using testing::ThrowsMessage;

constexpr Case kSmall{.micro_batches = 5, .layers = 1, .width = 8, .seed = 7};

/// ThreadSanitizer maps memory for each thread of a kernel, which the emulator keeps.
constexpr const char* kNoRoom = "ThreadSanitizer needs more than a process may map";

Outcome train(Context& context, Shard shard) {
    Case how = kSmall;
    how.shard = shard;
    Training training(context, how);
    training.steps(2);
    return training.outcome();
}

TEST(RanksOnGpus, ShardedGradientsGiveTheBitsOfOneGpu) {
    if (kernels::test::kRaces) GTEST_SKIP() << kNoRoom;
    Context context = Context::cuda(0, {.seed = 7});
    const Outcome one = train(context, Shard::gradients);
    for (const int ranks : {2, 3, 4}) {
        const EmulatedOrder order = kOrders[ranks - 2];
        const auto sharded = [](Context& rank) { return train(rank, Shard::gradients); };
        for (const Outcome& rank : on_gpus(ranks, sharded, Engine::nccl, order)) {
            EXPECT_EQ(rank.state, one.state) << ranks;
            EXPECT_EQ(rank.losses, one.losses) << ranks;
            EXPECT_THAT(rank.some, Pointwise(NanSensitiveDoubleEq(), one.some)) << ranks;
            EXPECT_EQ(rank.norms, one.norms) << ranks;
        }
    }
}

TEST(RanksOnGpus, GivesTheBitsOfTheHostsEngine) {
    if (kernels::test::kRaces) GTEST_SKIP() << kNoRoom;
    for (const Shard shard : {Shard::none, Shard::state}) {
        const auto work = [&](Context& rank) { return train(rank, shard); };
        const std::vector<Outcome> host = on_gpus(3, work, Engine::host);
        for (const EmulatedOrder order : kOrders) {
            for (const Outcome& rank : on_gpus(3, work, Engine::nccl, order)) {
                EXPECT_EQ(rank.state, host[0].state);
                EXPECT_EQ(rank.norms, host[0].norms);
            }
        }
    }
}

/// y = x; its gradient fails when it is told to.
struct Failing {
    static constexpr OpInfo info{.name = "failing"};
    struct Attrs {
        const bool* fails = nullptr;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.empty_like(x, x.dtype);
        exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
        return {{}, y};
    }
    static void backward(Exec&, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
        if (*attrs.fails) throw Error("it was to fail");
        sink.give(0, std::move(dy));
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

/// Five weights in a row, each a segment.
class FiveWeights {
  public:
    FiveWeights(Context& context, Shard shard) : context_(context), parameters_(context, {.shard = shard}) {
        for (int i = 0; i < 5; ++i)
            weights_.push_back(parameters_.create(fmt::format("w{}", i), {40, 40}, nn::init::ones()));
        optimizer_.emplace(parameters_);
        accumulator_.emplace(parameters_, *optimizer_);
    }
    optim::GradientAccumulator& accumulator() { return *accumulator_; }
    void step() {
        accumulator_->begin_step({.micro_batches = 2, .learning_rate = 0.01});
        accumulator_->accumulate([&] { return loss(); });
        accumulator_->step();
    }
    /// A backward that is lost behind two of the weights.
    void fail() {
        accumulator_->begin_step({.micro_batches = 2, .learning_rate = 0.01});
        fails_ = true;
        EXPECT_THAT([&] { accumulator_->accumulate([&] { return loss(); }); },
                    ThrowsMessage<Error>(HasSubstr("it was to fail")));
        fails_ = false;
        accumulator_->reset();
    }
    std::string state() { return files::state_sha256(context_, {parameters_, *optimizer_}); }

  private:
    Loss loss() {
        // What is lost differs from what comes in its place.
        const float scale = fails_ ? 0x3p-8f : 0x1p-8f;
        const std::vector<float> x(80, scale * static_cast<float>(1 + context_.random_counter()));
        Tensor y = context_.from_host(x, {2, 40});
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            y = matmul(y, weights_[i]) * 0x1p-5;
            if (i == 2) y = apply<Failing>({&fails_}, y);
        }
        return {sum(y * y), 2};
    }

    Context& context_;
    Parameters parameters_;
    std::vector<Tensor> weights_;
    std::optional<optim::AdamW> optimizer_;
    std::optional<optim::GradientAccumulator> accumulator_;
    bool fails_ = false;
};

/// Two segments are on their way while the next one is made; the first of them is added up before that one goes. Sums
/// that all ranks need go then.
TEST(RanksOnGpus, ExchangesTwoSegmentsBesideTheBackwardOfTheNext) {
    for (const auto& [shard, each] : {std::pair{Shard::none, 2u}, {Shard::state, 1u}}) {
        const auto all = on_gpus(2, [shard = shard](Context& context) {
            FiveWeights training(context, shard);
            std::vector<std::uint64_t> exchanges;
            training.accumulator().on_complete(
                [&](const GradientSegment&) { exchanges.push_back(context.group()->traffic().exchanges); });
            training.step();
            return exchanges;
        });
        for (const std::vector<std::uint64_t>& exchanges : all) {
            ASSERT_EQ(exchanges.size(), 5u);
            for (std::size_t k = 1; k < 5; ++k) EXPECT_EQ(exchanges[k], exchanges[k - 1] + (k < 3 ? 1 : each));
        }
    }
}

TEST(RanksOnGpus, ABackwardThatFailsLeavesNothingOnItsWay) {
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients}) {
        for (const EmulatedOrder order : kOrders) {
            const auto train_on = [&](bool fails) {
                return on_gpus(
                    2,
                    [&](Context& context) {
                        FiveWeights training(context, shard);
                        if (fails) training.fail();
                        // Into the memory that was given back.
                        const std::vector<float> ones(768, 1.0f);
                        std::vector<Tensor> held;
                        for (int i = 0; i < 16; ++i) held.push_back(context.from_host(ones, {768}));
                        training.step();
                        training.step();
                        for (const Tensor& tensor : held) EXPECT_EQ(tensor.to_vector<float>(), ones);
                        return training.state();
                    },
                    Engine::nccl, order);
            };
            const std::vector<std::string> as_usual = train_on(false), after_failure = train_on(true);
            EXPECT_EQ(after_failure, as_usual) << name(shard);
            EXPECT_EQ(as_usual[0], as_usual[1]);
        }
    }
}

TEST(RanksOnGpus, RunningStatisticsTakeInAllMicroBatchesInOrder) {
    Context context = Context::cuda(0, {.seed = 7});
    const std::string one = of_uneven_work(context, 5);
    for (const int ranks : {2, 3}) {
        for (const std::string& rank : on_gpus(ranks, [](Context& on) { return of_uneven_work(on, 5); }))
            EXPECT_EQ(rank, one) << ranks;
    }
}

TEST(RanksOnGpus, RanksTakeTheMemoryThatIsRehearsed) {
    if (kernels::test::kRaces) GTEST_SKIP() << kNoRoom;
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients}) {
        const auto both = on_gpus(3, [&](Context& rank) {
            const Outcome real = train(rank, shard);
            Context dry = Context::dry(rank.profile());
            return std::pair{real, train(dry, shard)};
        });
        for (const auto& [real, rehearsed] : both) {
            EXPECT_EQ(rehearsed.peak, real.peak) << name(shard);
            EXPECT_EQ(rehearsed.reserved, real.reserved) << name(shard);
        }
    }
}

TEST(RanksOnGpus, HaveNoGraphs) {
    dist::run_ranks(2, [](const std::shared_ptr<Group>& hosts) {
        Context graphs = Context::cuda(0, {.compute = {.graphs = true}, .group = dist::over_nccl(hosts, test::kFake)});
        EXPECT_THAT([&] { train(graphs, Shard::none); },
                    ThrowsMessage<Error>(HasSubstr("graphs can't record exchanges between ranks")));
    });
}

}  // namespace emulated_training_test
}  // namespace headroom
