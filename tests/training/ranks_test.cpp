// A training by several ranks, as threads: who writes files, and what all say of a loss that is not finite.
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace {

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
                ThrowsMessage<Error>(HasSubstr("the first output that was not finite is that of earlier")));
}

}  // namespace
}  // namespace headroom::training
