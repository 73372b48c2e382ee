// A training by several ranks, as threads: who writes files, what each validates on, and what all say of a loss that is
// not finite.
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace ranks_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Context rank_of(const std::shared_ptr<Group>& group) { return Context::cpu({.threads = 1, .seed = 5, .group = group}); }

class Even final : public test::OneLayerTask {
  public:
    Even(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
};

TEST(TrainerOfRanks, TheFirstWritesAllFiles) {
    const test::ScratchFolder folder;
    const auto own = [&](int rank) { return folder.path() / std::to_string(rank); };
    dist::run_ranks(3, [&](const std::shared_ptr<Group>& group) {
        const std::filesystem::path files = own(group->rank());
        std::filesystem::create_directory(files);
        Context context = rank_of(group);
        Trainer(task<Even>(), {.accumulate = 3,
                               .steps = 4,
                               .save = files / "saved",
                               .handle_signals = false,
                               .print = false,
                               .log = files / "log",
                               .tensorboard = files / "events",
                               .memory_history = files / "history"})
            .run(context);
    });
    for (const char* name : {"saved", "log", "events", "history"}) EXPECT_TRUE(exists(own(0) / name)) << name;
    for (const int rank : {1, 2}) EXPECT_TRUE(std::filesystem::is_empty(own(rank))) << rank;
}

using Points = data::MemoryDataset<float>;

/// Counts the batches on which it validates.
class Counting final : public DataTask<Points> {
  public:
    Counting(Parameters& parameters, std::int64_t batch, const Points& points, bool combines, int* batches)
        : DataTask(parameters, shuffled(points, points, batch)),
          model_(nn::Path(parameters), 1, 1),
          combines_(combines),
          batches_(batches) {}
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), 1); }
    Validation validate(const ProgressCallback& watch) override {
        MeanLoss mean;
        *batches_ = 0;
        const auto work = [&](const Batch& batch, const HostBatch&) {
            mean.add(loss(batch));
            ++*batches_;
        };
        if (combines_) {
            each_validation_batch(watch, std::tie(mean), work);
        } else {
            each_validation_batch(watch, work);
        }
        return {.loss = mean.value()};
    }

  private:
    nn::Linear model_;
    bool combines_;
    int* batches_;
};

TEST(TrainerOfRanks, EachHasItsShareOfAValidationWhoseFiguresCanBeCombined) {
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const Points points(values, {1}, values);  // five batches of two
    for (const bool combines : {true, false}) {
        std::array<int, 3> batches{};
        std::array<double, 3> losses{};
        dist::run_ranks(3, [&](const std::shared_ptr<Group>& group) {
            const auto rank = static_cast<std::size_t>(group->rank());
            Context context = rank_of(group);
            losses[rank] = Trainer(task<Counting>(points, combines, &batches[rank]),
                                   {.batch = 2, .accumulate = 3, .steps = 2, .handle_signals = false, .print = false})
                               .run(context)
                               .validation->loss;
        });
        EXPECT_EQ(batches, combines ? (std::array{2, 2, 1}) : (std::array{5, 5, 5}));
        EXPECT_EQ(losses[1], losses[0]);
        EXPECT_EQ(losses[2], losses[0]);
    }
}

/// As people see it on the first.
TEST(TrainerOfRanks, AValidationIsWatchedUpToItsLastBatch) {
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const Points points(values, {1}, values);  // five batches of two
    using Seen = std::vector<std::pair<std::int64_t, std::int64_t>>;
    std::array<Seen, 3> seen;
    std::array<int, 3> batches{};
    dist::run_ranks(3, [&](const std::shared_ptr<Group>& group) {
        const auto rank = static_cast<std::size_t>(group->rank());
        Context context = rank_of(group);
        Session session(context, task<Counting>(points, true, &batches[rank]),
                        {.batch = 2, .accumulate = 3, .steps = 1});
        session.validate([&](std::int64_t done, std::int64_t all) { seen[rank].emplace_back(done, all); });
    });
    EXPECT_EQ(seen[0], (Seen{{3, 5}, {5, 5}}));
    EXPECT_EQ(seen[2], (Seen{{3, 5}}));
}

/// Its loss draws, in validations too.
class Drawing final : public DataTask<Points> {
  public:
    Drawing(Parameters& parameters, std::int64_t batch, const Points& points)
        : DataTask(parameters, shuffled(points, points, batch)), model_(nn::Path(parameters), 1, 1) {}
    Loss loss(const Batch& batch) override {
        const Tensor noise = randn(context(), batch[0].shape()) + randn(context(), batch[0].shape());
        const RegionScope body(context(), context().module_path("body"));
        return Loss(sum(square(square(model_(batch[0]) + noise))), batch[0].shape()[0]);
    }

  private:
    nn::Linear model_;
};

TEST(TrainerOfRanks, AValidationChangesNothingThatIsDrawn) {
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const Points points(values, {1}, values);
    std::optional<Report> first;
    for (const int ranks : {1, 2, 3}) {
        for (const std::int64_t every : {0, 1, 3}) {
            Report report;
            dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
                Context context = rank_of(group);
                const Report made = Trainer(task<Drawing>(points), {.batch = 2,
                                                                    .accumulate = 3,
                                                                    .steps = 4,
                                                                    .shard = Shard::gradients,
                                                                    .validate_every = every,
                                                                    .handle_signals = false,
                                                                    .print = false})
                                        .run(context);
                if (group->rank() == 0) report = made;
            });
            if (!first) first = report;
            EXPECT_EQ(report.state_sha256, first->state_sha256) << ranks << " ranks, validated every " << every;
            EXPECT_EQ(report.validation->loss, first->validation->loss) << ranks << " ranks";
        }
    }
}

/// Draws its data.
class Drawn final : public test::OneLayerTask {
  public:
    Drawn(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Batch batch() override { return {randn(context_, {1, 2}) * randn(context_, {1, 2}), ones(context_, {1})}; }
};

TEST(TrainerOfRanks, DataThatIsDrawnGoesByTheNumberOfItsMicroBatch) {
    const test::ScratchFolder folder;
    const auto state = [&](int ranks, std::int64_t stop, bool resumes) {
        std::string result;
        dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
            Context context = rank_of(group);
            const Report report = Trainer(task<Drawn>(), {.accumulate = 5,
                                                          .steps = 4,
                                                          .shard = Shard::gradients,
                                                          .resume = resumes ? folder.path() / "stopped" : "",
                                                          .save = folder.path() / "stopped",
                                                          .stop_after = stop,
                                                          .handle_signals = false,
                                                          .print = false})
                                      .run(context);
            if (group->rank() == 0) result = report.state_sha256;
        });
        return result;
    };
    const std::string one = state(1, -1, false);
    EXPECT_EQ(state(2, -1, false), one);
    EXPECT_EQ(state(3, -1, false), one);
    EXPECT_NE(state(2, 2, false), one);
    EXPECT_EQ(state(3, -1, true), one);
}

/// Draws its data, which now and then has no logarithm.
class DrawnUnlucky final : public test::OneLayerTask {
  public:
    DrawnUnlucky(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Batch batch() override { return {rand(context_, {1, 2}, Dtype::f32, -0.002, 1), ones(context_, {1})}; }
    Loss loss(const Batch& batch) override {
        const Tensor made = test::OneLayerTask::loss(batch).sum();
        const RegionScope region(context_, context_.module_path("unlucky"));
        return Loss(made * sum(log(batch[0])), 1);
    }
};

/// Or else those of another step are computed, in which nothing is wrong.
TEST(TrainerOfRanks, DataThatIsDrawnIsDrawnAgainToExplainIt) {
    for (const int ranks : {1, 2, 3}) {
        const auto train = [&] {
            dist::run_ranks(ranks, [](const std::shared_ptr<Group>& group) {
                Context context = rank_of(group);
                Trainer(task<DrawnUnlucky>(), {.accumulate = 3,
                                               .steps = 5000,
                                               .schedule = {.peak = 1e-3},
                                               .handle_signals = false,
                                               .print = false})
                    .run(context);
            });
        };
        EXPECT_THAT(train, ThrowsMessage<Error>(HasSubstr("the loss is not finite; the first output that is not "
                                                          "finite is that of unlucky")))
            << ranks;
    }
}

TEST(TrainerOfRanks, FiguresOfAStepAreThoseOfEach) {
    const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const Points points(values, {1}, values);
    std::array<std::uint64_t, 3> replayed{};
    std::array<double, 3> seconds{};
    dist::run_ranks(3, [&](const std::shared_ptr<Group>& group) {
        Context context = rank_of(group);
        const Report report =
            Trainer(task<Drawing>(points),
                    {.batch = 2,
                     .accumulate = 5,
                     .steps = 2,
                     .recomputes = {{.name = "all", .what = "", .policies = {{"body", recompute_all()}}}},
                     .recompute = "all",
                     .handle_signals = false,
                     .print = false})
                .run(context);
        EXPECT_EQ(report.forecast.replayed_ops, report.last_step.replayed_ops) << group->rank();
        replayed[static_cast<std::size_t>(group->rank())] = report.last_step.replayed_ops;
        seconds[static_cast<std::size_t>(group->rank())] = report.forecast.step_seconds.value_or(0);
    });
    EXPECT_GT(replayed[2], 0u);
    EXPECT_EQ(replayed, (std::array{2 * replayed[2], 2 * replayed[2], replayed[2]}));
    EXPECT_GT(seconds[2], 0);
    EXPECT_EQ(seconds, (std::array{2 * seconds[2], 2 * seconds[2], seconds[2]})) << "by rates, outside of ops none";
}

/// With a figure that is no share of something.
class Figured final : public test::OneLayerTask {
  public:
    Figured(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Validation validate(const ProgressCallback&) override {
        return {.loss = 1, .metrics = {{"KL", "kl", 12.34, false}, {"accuracy", "accuracy", 0.5}}};
    }
    std::int64_t validation_batches() const override { return 1; }
};

/// The step that is advised has a micro-batch for each rank, and no fewer samples.
TEST(TrainerOfRanks, AStepOfFewerMicroBatchesIsToldWhichOneDoes) {
    Profile profile{.threads = 1};
    profile.ranks = 4;
    for (const auto& [batch, advised] : {std::pair{6, ".batch = 3 .accumulate = 4 is the same step"},
                                         {7, ".batch = 4 .accumulate = 4 is the next larger step"},
                                         {5, ".batch = 3 .accumulate = 4 is the next larger step"},
                                         {1, ".batch = 1 .accumulate = 4 is the next larger step"}}) {
        Context dry = Context::dry(profile);
        EXPECT_THAT([&] { Session(dry, task<Figured>(), {.batch = batch, .accumulate = 2, .steps = 1}); },
                    ThrowsMessage<Error>(
                        HasSubstr(std::string(".accumulate = 2: 4 processes need a micro-batch each; ") + advised)));
    }
}

TEST(TrainerOfRanks, TheFirstAlonePrints) {
    ::testing::internal::CaptureStdout();
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Context context = rank_of(group);
        Trainer(task<Figured>(), {.accumulate = 2, .steps = 1, .handle_signals = false}).run(context);
    });
    const std::string text = ::testing::internal::GetCapturedStdout();
    const std::size_t first = text.find("predicted peak");
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find("predicted peak", first + 1), std::string::npos) << text;
    EXPECT_THAT(text, HasSubstr("KL 12.34, accuracy 50.00%"));
}

/// In its second step two micro-batches come to no number: of four, that of rank 1 before that of rank 0.
class TwiceUnlucky final : public test::OneLayerTask {
  public:
    TwiceUnlucky(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        const std::uint64_t number = context_.random_counter();
        if (number != 5 && number != 6) return Loss(sum, 1);
        const RegionScope region(context_, context_.module_path(number == 5 ? "earlier" : "later"));
        return Loss(log(sum * sum * -1.0), 1);
    }
};

TEST(TrainerOfRanks, NamesTheFirstMicroBatchThatIsNotFinite) {
    EXPECT_THAT(([] {
                    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
                        Context context = rank_of(group);
                        Trainer(task<TwiceUnlucky>(),
                                {.accumulate = 4, .steps = 4, .handle_signals = false, .print = false})
                            .run(context);
                    });
                }),
                ThrowsMessage<Error>(HasSubstr("the first output that is not finite is that of earlier")));
}

}  // namespace ranks_test
}  // namespace headroom::training
