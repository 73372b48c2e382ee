// Steps have one number in a memory's history, on the terminal and in files: the first one is 1.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/history.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace history_steps_test {

using ::testing::ElementsAre;
using ::testing::Pair;

/// Takes a block in whatever it does, of a size by which the history is asked.
class Marking final : public test::OneLayerTask {
  public:
    static constexpr std::int64_t kSetUp = 7000, kBatch = 17000, kLoss = 27000, kValidation = 37000;

    Marking(Parameters& parameters, std::int64_t, std::int64_t unreadable)
        : test::OneLayerTask(parameters), unreadable_(unreadable) {
        mark(kSetUp);
    }
    Batch batch() override {
        mark(kBatch);
        if (!context_.dry() && ++batches_ == unreadable_) throw FileError("a batch can't be read");
        return test::OneLayerTask::batch();
    }
    Loss loss(const Batch& batch) override {
        mark(kLoss);
        return test::OneLayerTask::loss(batch);
    }
    Validation validate(const ProgressCallback&) override {
        mark(kValidation);
        return {.loss = 1};
    }

  private:
    void mark(std::int64_t bytes) { context_.exec().empty({bytes}, Dtype::boolean); }

    std::int64_t unreadable_, batches_ = 0;
};

/// Steps and how many blocks of that size each took.
std::map<std::uint32_t, int> steps_of(std::int64_t bytes, const Context& context) {
    std::map<std::uint32_t, int> steps;
    for (const memory::MemoryEvent& event : context.shared_memory()->snapshot().events) {
        if (event.kind == memory::MemoryEvent::Kind::allocate && event.requested == static_cast<std::size_t>(bytes))
            ++steps[event.step];
    }
    return steps;
}

TrainerOptions options() {
    return {.accumulate = 2, .steps = 4, .validate_every = 2, .handle_signals = false, .print = false};
}

TEST(HistorySteps, AreThoseThatAreTold) {
    Context context = Context::cpu({.threads = 1});
    context.memory().start_history(10000);
    Trainer trainer(task<Marking>(std::int64_t{0}), options());
    std::vector<std::int64_t> told, validated;
    trainer.after_step([&](const Step& step) { told.push_back(step.number); });
    trainer.after_validation([&](const ValidatedStep& step) { validated.push_back(step.number); });
    trainer.run(context);
    EXPECT_THAT(told, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(validated, ElementsAre(2, 4));
    EXPECT_THAT(steps_of(Marking::kSetUp, context), ElementsAre(Pair(0, 1)));
    for (const std::int64_t part : {Marking::kBatch, Marking::kLoss})
        EXPECT_THAT(steps_of(part, context), ElementsAre(Pair(1, 2), Pair(2, 2), Pair(3, 2), Pair(4, 2))) << part;
    EXPECT_THAT(steps_of(Marking::kValidation, context), ElementsAre(Pair(2, 1), Pair(4, 1)));
}

TEST(HistorySteps, AStepThatFailedKeepsItsNumber) {
    Context context = Context::cpu({.threads = 1});
    context.memory().start_history(10000);
    Session session(context, task<Marking>(std::int64_t{4}), options());  // late in the second step
    session.step();
    EXPECT_THROW(session.step(), UnreadableBatch);
    for (int step = 2; step <= 3; ++step) session.step();
    EXPECT_THAT(steps_of(Marking::kBatch, context), ElementsAre(Pair(1, 2), Pair(2, 4), Pair(3, 2)));
    EXPECT_THAT(steps_of(Marking::kLoss, context), ElementsAre(Pair(1, 2), Pair(2, 3), Pair(3, 2)));
}

}  // namespace history_steps_test
}  // namespace headroom::training
