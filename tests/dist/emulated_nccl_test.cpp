// Ranks, as threads with an emulated GPU each, over the NCCL that is strict, late, and fails when it is told to: what
// they train has the bits of one rank, and of ranks whose bytes go through the host.
#include <headroom/dist/nccl.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/apply.hpp>
#include <headroom/core/context.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/internal/emulated_queues.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/any_order.hpp>
#include <headroom/tests/dist/fake_nccl/fake_nccl.hpp>
#include <headroom/tests/dist/training.hpp>

namespace headroom {
namespace {

using dist::over_nccl;
using dist::run_ranks;
using kernels::EmulatedOrder;
using test::Case;
using test::of_uneven_work;
using test::Outcome;
using test::Training;
using testing::HasSubstr;
using testing::ThrowsMessage;

const dist::NcclOptions kFake{.patience = 60, .libraries = {HEADROOM_FAKE_NCCL}};

/// The bytes of GPUs, by way of the host: the engine of processes on CPUs.
class ThroughHost final : public Group {
  public:
    explicit ThroughHost(std::shared_ptr<Group> hosts)
        : Group(hosts->rank(), hosts->ranks()), hosts_(std::move(hosts)) {}

  private:
    static std::size_t end(std::span<const Extent> extents) {
        std::size_t last = 0;
        for (const Extent& extent : extents) last = std::max(last, extent.offset + extent.bytes);
        return last;
    }
    void do_exchange(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                     std::span<const Extent> receives) override {
        hosts_->exchange(send, sends, receive, receives);
    }
    void do_exchange_on(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                        std::span<const Extent> receives) override {
        std::vector<std::byte> out(end(sends)), in(end(receives));
        stream.device->copy_to_host(send, out.data(), out.size());
        hosts_->exchange(out.data(), sends, in.data(), receives);
        for (const Extent& extent : receives)
            stream.device->copy_to_device(in.data() + extent.offset, receive + extent.offset, extent.bytes);
    }

    std::shared_ptr<Group> hosts_;
};

/// A GPU works while its host waits for the others; the emulator works when its own host waits for it.
class WorkingMeanwhile final : public Group {
  public:
    explicit WorkingMeanwhile(std::shared_ptr<Group> hosts)
        : Group(hosts->rank(), hosts->ranks()), hosts_(std::move(hosts)) {}
    CudaDevice* gpu = nullptr;

  private:
    void do_exchange(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                     std::span<const Extent> receives) override {
        if (gpu) gpu->synchronize();
        hosts_->exchange(send, sends, receive, receives);
    }

    std::shared_ptr<Group> hosts_;
};

enum class Engine { nccl, host };

/// Kernels when they are waited for, but where a sanitizer takes what the host has freed meanwhile for an error.
constexpr EmulatedOrder kLate = test::kFreedWhileQueued ? EmulatedOrder::copies_first : EmulatedOrder::at_once;
constexpr EmulatedOrder kOrders[] = {EmulatedOrder::at_once, kLate, EmulatedOrder::kernels_first};

/// `work` in each of several ranks, by rank; they have GPUs of two kinds.
template <class Work>
auto on_gpus(int ranks, const Work& work, Engine engine = Engine::nccl, EmulatedOrder order = EmulatedOrder::at_once) {
    std::vector<decltype(work(std::declval<Context&>()))> all(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](const std::shared_ptr<Group>& hosts) {
        const auto working = std::make_shared<WorkingMeanwhile>(hosts);
        std::shared_ptr<Group> group = std::make_shared<ThroughHost>(hosts);
        if (engine == Engine::nccl) group = over_nccl(working, kFake);
        Context context = Context::cuda(hosts->rank() % kernels::cuda_device_count(), {.seed = 7, .group = group});
        working->gpu = context.gpu();
        dynamic_cast<kernels::EmulatedControls&>(*context.gpu()).set_order(order);
        all[static_cast<std::size_t>(hosts->rank())] = work(context);
    });
    return all;
}

constexpr Case kSmall{.micro_batches = 5, .layers = 1, .width = 8, .seed = 7};

Outcome train(Context& context, Shard shard) {
    Case how = kSmall;
    how.shard = shard;
    Training training(context, how);
    training.steps(2);
    return training.outcome();
}

TEST(Nccl, SumsAndGathersInTheOrderOfRanks) {
    for (const EmulatedOrder order : kOrders) {
        const std::vector<std::vector<float>> all = on_gpus(
            3,
            [](Context& context) {
                Group& group = *context.group();
                const auto rank = static_cast<float>(group.rank());
                std::vector<float> values(1000, 1.0f + rank * 0x1p-24f);  // not associative
                values[999] = rank;
                const Tensor sums = context.from_host(values, {1000});
                sum_over_ranks(context.exec(), group, sums.array());
                std::vector<float> rows(6, -1.0f);
                rows[static_cast<std::size_t>(2 * group.rank())] = rank;
                const Tensor gathered = context.from_host(rows, {3, 2});
                gather_rows(context.exec(), group, gathered.array());
                std::vector<float> both = sums.to_vector<float>(), more = gathered.to_vector<float>();
                both.insert(both.end(), more.begin(), more.end());
                EXPECT_EQ(group.traffic().exchanges, 3u);
                return both;
            },
            Engine::nccl, order);
        const float sum = (1.0f + (1.0f + 0x1p-24f)) + (1.0f + 0x1p-23f);
        for (const std::vector<float>& rank : all) {
            EXPECT_EQ(rank[0], sum);
            EXPECT_EQ(rank[998], sum);
            EXPECT_EQ(rank[999], 3.0f);
            EXPECT_THAT(std::vector<float>(rank.begin() + 1000, rank.end()), testing::ElementsAre(0, -1, 1, -1, 2, -1));
        }
    }
}

TEST(Nccl, ShardedGradientsGiveTheBitsOfOneGpu) {
    Context context = Context::cuda(0, {.seed = 7});
    const Outcome one = train(context, Shard::gradients);
    for (const int ranks : {2, 3, 4}) {
        const EmulatedOrder order = kOrders[ranks - 2];
        const auto sharded = [](Context& rank) { return train(rank, Shard::gradients); };
        for (const Outcome& rank : on_gpus(ranks, sharded, Engine::nccl, order)) {
            EXPECT_EQ(rank.state, one.state) << ranks;
            EXPECT_EQ(rank.losses, one.losses) << ranks;
            EXPECT_EQ(rank.norms, one.norms) << ranks;
        }
    }
}

TEST(Nccl, GivesTheBitsOfTheHostsEngine) {
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
        const std::vector<float> x(80, 0x1p-8f * static_cast<float>(1 + context_.random_counter()));
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
TEST(Nccl, ExchangesTwoSegmentsBesideTheBackwardOfTheNext) {
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

TEST(Nccl, ABackwardThatFailsLeavesNothingOnItsWay) {
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients}) {
        for (const EmulatedOrder order : kOrders) {
            const auto train_on = [&](bool fails) {
                return on_gpus(
                    2,
                    [&](Context& context) {
                        FiveWeights training(context, shard);
                        if (fails) training.fail();
                        training.step();
                        training.step();
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

TEST(Nccl, RunningStatisticsTakeInAllMicroBatchesInOrder) {
    Context context = Context::cuda(0, {.seed = 7});
    const std::string one = of_uneven_work(context, 5);
    for (const int ranks : {2, 3}) {
        for (const std::string& rank : on_gpus(ranks, [](Context& on) { return of_uneven_work(on, 5); }))
            EXPECT_EQ(rank, one) << ranks;
    }
}

TEST(Nccl, RanksTakeTheMemoryThatIsRehearsed) {
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

struct Failure {
    const char* call = nullptr;  ///< that failed; null if there were fewer
    std::string error;
    std::vector<float> sums;
};

/// Two ranks that sum twice, of which `rank`'s n-th call of NCCL fails.
Failure fail_at(long call, int rank) {
    Failure failure;
    try {
        run_ranks(2, [&](const std::shared_ptr<Group>& hosts) {
            const bool told = hosts->rank() == rank;
            fake_nccl_fail(told ? call : 0);
            try {
                Context context = Context::cuda(hosts->rank(), {.group = over_nccl(hosts, kFake)});
                const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                for (int i = 0; i < 2; ++i) sum_over_ranks(context.exec(), *context.group(), values.array());
                const std::vector<float> read = values.to_vector<float>();
                if (told) failure.sums = read;
            } catch (...) {
                if (told) failure.call = fake_nccl_failed();
                throw;
            }
            if (told) failure.call = fake_nccl_failed();
        });
    } catch (const Error& error) {
        failure.error = error.what();
    }
    return failure;
}

TEST(Nccl, MayFailAtAnyCall) {
    for (const int rank : {0, 1}) {
        for (long call = 1;; ++call) {
            SCOPED_TRACE(testing::Message() << "call " << call << " of rank " << rank);
            const Failure failure = fail_at(call, rank);
            if (failure.sums.empty()) {
                EXPECT_THAT(failure.error, HasSubstr("failed"));
                EXPECT_NE(failure.call, nullptr);
            } else {  // all was done that was asked of this rank
                EXPECT_THAT(failure.error, testing::AnyOf("", HasSubstr("failed")));
                EXPECT_EQ(failure.sums, std::vector<float>(600, 4.0f));
            }
            ASSERT_LT(call, 200);
            if (failure.call) continue;
            EXPECT_GT(call, 20);
            break;
        }
    }
}

TEST(Nccl, FailsForGood) {
    std::vector<std::string> errors(2);
    EXPECT_THROW(run_ranks(2,
                           [&](const std::shared_ptr<Group>& hosts) {
                               Context context = Context::cuda(hosts->rank(), {.group = over_nccl(hosts, kFake)});
                               const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                               sum_over_ranks(context.exec(), *context.group(), values.array());
                               gather(*hosts, 0.0);
                               if (hosts->rank() == 1) throw Error("it has left");
                               EXPECT_THROW(gather(*hosts, 1.0), Error);
                               for (std::string& error : errors) {
                                   try {
                                       sum_over_ranks(context.exec(), *context.group(), values.array());
                                   } catch (const DeviceError& failure) {
                                       error = failure.what();
                                   }
                               }
                           }),
                 Error);
    EXPECT_THAT(errors[0], HasSubstr("failed: "));
    EXPECT_THAT(errors[1], HasSubstr("rank 0: NCCL has failed before"));
}

TEST(Nccl, ARankThatNeverComesIsNotWaitedForForEver) {
    EXPECT_THAT(([] {
                    run_ranks(2, [](const std::shared_ptr<Group>& hosts) {
                        if (hosts->rank() == 1) {  // takes the id, and does nothing with it
                            gather(*hosts, std::string());
                            std::this_thread::sleep_for(std::chrono::milliseconds(500));
                            return;
                        }
                        const dist::NcclOptions options{.patience = 0.1, .libraries = kFake.libraries};
                        Context context = Context::cuda(0, {.group = over_nccl(hosts, options)});
                        const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                        sum_over_ranks(context.exec(), *context.group(), values.array());
                    });
                }),
                ThrowsMessage<DeviceError>(
                    HasSubstr("rank 0: ncclCommInitRankConfig: not all of 2 ranks have come within 0.1 s")));
}

TEST(Nccl, RefusesWhatCannotBe) {
    run_ranks(1, [](const std::shared_ptr<Group>& hosts) {
        EXPECT_THAT(([&] { over_nccl(hosts, {.libraries = {"libnccl-nowhere.so"}}); }),
                    ThrowsMessage<DeviceError>(testing::AllOf(HasSubstr("several GPUs: NCCL"), HasSubstr("install"))));
        for (const auto& [version, text] : {std::pair{21310, "NCCL 2.13 is too old"}, {2708, "NCCL 2.7 is too old"}}) {
            fake_nccl_version(version);
            EXPECT_THAT([&] { over_nccl(hosts, kFake); }, ThrowsMessage<DeviceError>(HasSubstr(text)));
        }
        fake_nccl_version(22800);
        Context context = Context::cuda(0, {.group = hosts});
        const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
        EXPECT_THAT([&] { sum_over_ranks(context.exec(), *hosts, values.array()); },
                    ThrowsMessage<Error>(HasSubstr("reach each other's host memory alone")));
        Context graphs = Context::cuda(0, {.compute = {.graphs = true}, .group = over_nccl(hosts, kFake)});
        EXPECT_THAT([&] { train(graphs, Shard::none); }, ThrowsMessage<Error>(HasSubstr("which a graph can't hold")));
    });
}

}  // namespace
}  // namespace headroom
