// Ranks that do not train the same are told in what they differ, before the first step, by the first cause.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>
#include <headroom/version.hpp>

namespace headroom::training {
namespace agreement_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// What one of the ranks may have otherwise.
struct Rank {
    TrainerOptions options;
    ContextOptions context = {.threads = 1, .seed = 5};
    std::int64_t width = 3;
    bool frozen = false, extra = false, sets = false, lost = false;
    std::string says = "{}", position = "first";
};

class Told final : public test::OneLayerTask {
  public:
    Told(Parameters& parameters, std::int64_t, const Rank& rank)
        : test::OneLayerTask(parameters),
          says_(rank.says),
          order_{rank.position},
          other_(nn::Path(parameters) / "other", 2, rank.width) {
        if (rank.extra) parameters.create("extra", {2}, nn::init::ones());
        if (rank.frozen) parameters.freeze("other.**");
        if (rank.sets) parameters.set("other.bias", std::vector<float>(3, 0.5f));
        if (rank.lost) parameters.set("other.bias", std::vector<float>(3, NAN));
    }
    Loss loss(const Batch& batch) override {
        return Loss(test::OneLayerTask::loss(batch).sum() + sum(other_(batch[0])), 1);
    }
    std::string describe() const override { return says_; }
    std::int64_t validation_batches() const override { return 1; }
    files::CheckpointPart order() override { return order_; }

  private:
    struct Order {
        std::string position;
        StateDict state_dict() const { return {{}, {{"position", position}}}; }
        void restore(const StateValues&) {}
    };
    std::string says_;
    Order order_;
    nn::Linear other_;
};

struct Case {
    std::string name;
    std::function<void(Rank&)> change;
    std::string line;  ///< a part of what is said

    friend std::ostream& operator<<(std::ostream& stream, const Case& c) { return stream << c.name; }
};

Rank usual() {
    return {.options = {.accumulate = 4,
                        .steps = 3,
                        .schedule = {.decay = optim::Decay::cosine, .peak = 0.01},
                        .handle_signals = false,
                        .print = false}};
}

/// With rank 1 of two as it is after `change`.
void train(const std::function<void(Rank&)>& change, Shard shard = Shard::none) {
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Rank rank = usual();
        rank.options.shard = shard;
        if (group->rank() == 1) change(rank);
        rank.context.group = group;
        Context context = Context::cpu(rank.context);
        Trainer(task<Told>(rank), rank.options).run(context);
    });
}

class Differing : public ::testing::TestWithParam<Case> {};

TEST_P(Differing, IsNamed) {
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients})
        EXPECT_THAT([&] { train(GetParam().change, shard); }, ThrowsMessage<Error>(HasSubstr(GetParam().line)));
}

Case of(const std::string& option, const std::string& one, const std::string& zero,
        const std::function<void(TrainerOptions&)>& change) {
    return {option, [change](Rank& rank) { change(rank.options); },
            "." + option + ": process 1 has " + one + ", but process 0 has " + zero};
}

optim::ParameterGroup group_of(double rate) {
    return {.pattern = "other.**", .schedule = [rate](std::int64_t step) { return step == 1000 ? rate : 0.1; }};
}

INSTANTIATE_TEST_SUITE_P(
    Options, Differing,
    ::testing::Values(of("batch", "31", "32", [](auto& o) { o.batch = 31; }),
                      of("accumulate", "5", "4", [](auto& o) { o.accumulate = 5; }),
                      of("autocast", "bf16", "none", [](auto& o) { o.autocast = Dtype::bf16; }),
                      of("peak", "0.02", "0.01", [](auto& o) { o.schedule.peak = 0.02; }),
                      of("decay", "1", "2", [](auto& o) { o.schedule.decay = optim::Decay::linear; }),
                      of("floor", "0.001", "0", [](auto& o) { o.schedule.floor = 0.001; }),
                      of("warmup_steps", "1", "0", [](auto& o) { o.schedule.warmup_steps = 1; }),
                      of("decay_steps", "7", "3", [](auto& o) { o.schedule.decay_steps = 7; }),
                      of("clip", "0.5", "0", [](auto& o) { o.clip = 0.5; }),
                      of("average", "0.9", "0", [](auto& o) { o.average = 0.9; }),
                      of("validate_every", "2", "0", [](auto& o) { o.validate_every = 2; }),
                      of("patience", "1", "0", [](auto& o) { o.patience = 1; }),
                      of("stop_after", "2", "-1", [](auto& o) { o.stop_after = 2; }),
                      of("budget", "1000000000", "0", [](auto& o) { o.budget = 1'000'000'000; }),
                      Case{"plan", [](Rank& rank) { rank.options.plan.emplace(); },
                           ".plan: process 1 has another, but process 0 has none"},
                      of("steps", "4", "3", [](auto& o) { o.steps = 4, o.schedule.decay_steps = 3; }),
                      of("recompute", "all", "none",
                         [](auto& o) {
                             o.recomputes = {{.name = "all", .what = "", .policies = {{"**", recompute_all()}}}};
                             o.recompute = "all";
                         })),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Others, Differing,
    ::testing::Values(
        Case{"Optimizer", [](Rank& rank) { rank.options.optimizer = sgd({.momentum = 0.9}); }, "optimizer: process 1"},
        Case{"Betas", [](Rank& rank) { rank.options.optimizer = adamw({.beta2 = 0.95}); }, "betas 0.9 0.95"},
        Case{"Epsilon", [](Rank& rank) { rank.options.optimizer = adamw({.epsilon = 1e-6}); }, "epsilon 1e-06"},
        Case{"Decay", [](Rank& rank) { rank.options.optimizer = adamw({.weight_decay = 0.5}); }, "decay 0.5"},
        Case{"Groups", [](Rank& rank) { rank.options.optimizer = adamw({.groups = {{.pattern = "other.**"}}}); },
             "; other.**: weight decay 0.01 for matrices, factor 1, but process 0"},
        Case{"Rules",
             [](Rank& rank) {
                 rank.options.optimizer = adamw({.groups = {{.pattern = "other.**", .rule = optim::sgd_rule()}}});
             },
             "; other.**: sgd momentum 0, weight decay 0 for matrices, factor 1, but process 0"},
        Case{"Rates", [](Rank& rank) { rank.options.optimizer = adamw({.groups = {group_of(0.2)}}); },
             "optimizer: process 1 has adamw"},
        Case{"Seed", [](Rank& rank) { rank.context.seed = 6; }, ".seed: process 1 has 6, but process 0 has 5"},
        Case{"Compute", [](Rank& rank) { rank.context.compute.scratch_budget = 5; },
             "compute.scratch_budget: process 1 has 5, but process 0"},
        Case{"Tf32", [](Rank& rank) { rank.context.compute.tf32 = true; },
             "compute.tf32: process 1 has true, but process 0 has false"},
        Case{"Nondeterministic", [](Rank& rank) { rank.context.compute.deterministic = false; },
             "compute.deterministic: process 1 has false, but process 0 has true"},
        Case{"OwnKernels", [](Rank& rank) { rank.context.compute.own_kernels = true; },
             "compute.own_kernels: process 1 has true, but process 0 has false"},
        Case{"Graphs", [](Rank& rank) { rank.context.compute.graphs = true; },
             "compute.graphs: process 1 has true, but process 0 has false"},
        Case{"Order", [](Rank& rank) { rank.position = "second"; },
             "data/position: process 1 has second, but process 0 has first"},
        Case{"Width", [](Rank& rank) { rank.width = 4; },
             "parameter other.weight: process 1 has f32 [4, 2], but process 0 has f32 [3, 2]"},
        Case{"Frozen", [](Rank& rank) { rank.frozen = true; },
             "parameter other.weight: process 1 has f32 [3, 2], frozen, but process 0 has f32 [3, 2]"},
        Case{"Extra", [](Rank& rank) { rank.extra = true; },
             "parameter extra: process 1 has f32 [2], but process 0 has none"},
        Case{"Description", [](Rank& rank) { rank.says = R"({"model": {"heads": 3}})"; },
             "model/heads: process 1 has 3, but process 0 has none"},
        Case{"Values", [](Rank& rank) { rank.options.values = [] {
                                            return StateValues{{"mine", R"({"a": 1})"}};
                                        }; },
             "mine/a: process 1 has 1, but process 0 has none"},
        Case{"InitialValues", [](Rank& rank) { rank.sets = true; },
             "after step 0 the parameters of process 1 differ from those of process 0"}),
    [](const auto& info) { return info.param.name; });

TEST(Agreement, SchedulesOfGroupsAreComparedByTheirRates) {
    const auto with = [](double rate) {
        return [rate](Rank& rank) { rank.options.optimizer = adamw({.groups = {group_of(rate)}}); };
    };
    const auto run = [&](double one) {
        dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
            Rank rank = usual();
            with(group->rank() == 1 ? one : 0.1)(rank);
            rank.context.group = group;
            Context context = Context::cpu(rank.context);
            Trainer(task<Told>(rank), rank.options).run(context);
        });
    };
    run(0.1);
    EXPECT_THAT([&] { run(0.2); },
                ThrowsMessage<Error>(HasSubstr("factor 1 0.1 0.1 0.1 0.1 0.2 0.1 0.1, but process 0")));
}

/// A rank of a build of another version, as far as the others hear.
class OtherBuild final : public Group {
  public:
    explicit OtherBuild(std::shared_ptr<Group> group)
        : Group(group->rank(), group->ranks()), group_(std::move(group)) {}

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        std::size_t end = 0;
        for (const Extent& extent : sends) end = std::max(end, extent.offset + extent.bytes);
        std::string told(reinterpret_cast<const char*>(send), end);
        const std::string fact = std::string(R"(["version",")") + version;
        if (const std::size_t at = told.find(fact); at != std::string::npos) told[at + fact.size() - 1] = 'x';
        group_->all_to_all(reinterpret_cast<const std::byte*>(told.data()), sends, receive, receives);
    }

    std::shared_ptr<Group> group_;
};

TEST(Agreement, OfOneVersionAreAll) {
    const auto run = [](bool other) {
        dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
            Rank rank = usual();
            rank.context.group = other && group->rank() == 1 ? std::make_shared<OtherBuild>(group) : group;
            Context context = Context::cpu(rank.context);
            Trainer(task<Told>(rank), rank.options).run(context);
        });
    };
    run(false);
    std::string one = version;
    one.back() = 'x';
    EXPECT_THAT([&] { run(true); },
                ThrowsMessage<Error>(HasSubstr("version: process 1 has " + one + ", but process 0 has " + version)));
}

TEST(Agreement, FilesToGoOnFromAreOfOneStep) {
    const test::ScratchFolder folder;
    const auto file = [&](std::int64_t step) { return folder.path() / ("after" + std::to_string(step)); };
    for (const std::int64_t step : {1, 2}) {
        Rank rank = usual();
        rank.options.stop_after = step;
        rank.options.save = file(step);
        Context context = Context::cpu(rank.context);
        Trainer(task<Told>(rank), rank.options).run(context);
    }
    for (const Shard shard : {Shard::none, Shard::state, Shard::gradients}) {
        const auto resume = [&](std::int64_t one) {
            dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
                Rank rank = usual();
                rank.options.shard = shard;
                rank.options.resume = file(group->rank() == 1 ? one : 1);
                rank.context.group = group;
                Context context = Context::cpu(rank.context);
                Trainer(task<Told>(rank), rank.options).run(context);
            });
        };
        resume(1);
        EXPECT_THAT([&] { resume(2); },
                    ThrowsMessage<Error>(HasSubstr("steps done: process 1 has 2, but process 0 has 1")));
    }
}

TEST(Agreement, FilesAreWrittenByAllOrByNone) {
    const test::ScratchFolder folder;
    const std::string file = folder.path() / "file";
    for (const Shard shard : {Shard::none, Shard::gradients}) {
        EXPECT_THAT([&] { train([&](Rank& rank) { rank.options.save = file; }, shard); },
                    ThrowsMessage<Error>(HasSubstr(".save: process 1 has a file, but process 0 has none")));
        EXPECT_THAT([&] { train([&](Rank& rank) { rank.options.best = file; }, shard); },
                    ThrowsMessage<Error>(HasSubstr(".best: process 1 has a file, but process 0 has none")));
    }
    const auto with_file = [&](std::int64_t every) {
        dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
            Rank rank = usual();
            rank.options.save = file;
            rank.options.save_every = group->rank() == 1 ? every : 2;
            rank.context.group = group;
            Context context = Context::cpu(rank.context);
            Trainer(task<Told>(rank), rank.options).run(context);
        });
    };
    with_file(2);
    EXPECT_THAT([&] { with_file(1); },
                ThrowsMessage<Error>(HasSubstr(".save_every: process 1 has 1, but process 0 has 2")));
    EXPECT_THAT([&] { train([&](Rank& rank) { rank.options.resume = file; }); },
                ThrowsMessage<Error>(HasSubstr(".resume: process 1 has a file, but process 0 has none")));
}

/// However little: a bit of one of a million numbers.
TEST(Agreement, WhatChangesParametersOnOneAloneIsSeenAtTheNextValidation) {
    constexpr std::int64_t width = 600'000;
    const auto run = [](std::size_t element, std::uint32_t bits) {
        dist::run_ranks(3, [&](const std::shared_ptr<Group>& group) {
            Rank rank = usual();
            rank.width = width;
            rank.context.group = group;
            Context context = Context::cpu(rank.context);
            Parameters* parameters = nullptr;
            const MakeTask make = [&](Parameters& own, std::int64_t batch) {
                parameters = &own;
                return std::make_unique<Told>(own, batch, rank);
            };
            Session session(context, make, rank.options);
            session.step();
            session.validate();
            if (group->rank() == 2) {
                std::vector<float> values = parameters->at("other.weight").tensor.to_vector<float>();
                values[element] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[element]) ^ bits);
                parameters->set("other.weight", values);
            }
            session.validate();
        });
    };
    run(0, 0);
    for (const std::size_t element : {std::size_t{0}, std::size_t{width}, std::size_t{2 * width - 1}}) {
        for (const int bit : {0, 22, 31})
            EXPECT_THAT([&] { run(element, std::uint32_t{1} << bit); },
                        ThrowsMessage<Error>(
                            HasSubstr("after step 1 the parameters of process 2 differ from those of process 0")))
                << element << ", bit " << bit;
    }
}

/// The step in which they were lost is told, and not that ranks differ.
TEST(Agreement, ParametersThatAreNoNumbersOnAllAreNoDifference) {
    const auto lost_on = [](int ranks) {
        return [ranks] {
            dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
                Rank rank = usual();
                rank.options.steps = 0;
                rank.context.group = group;
                rank.lost = group->rank() < ranks;
                Context context = Context::cpu(rank.context);
                Session(context, task<Told>(rank), rank.options).validate();
            });
        };
    };
    EXPECT_NO_THROW(lost_on(2)());
    EXPECT_THAT(lost_on(1),
                ThrowsMessage<Error>(HasSubstr("the parameters of process 1 differ from those of process 0")));
}

}  // namespace agreement_test
}  // namespace headroom::training
