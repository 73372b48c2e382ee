// A rehearsal leaves out micro-batches that find memory as earlier ones did, and no others; epochs leave out none but
// the last that fill no step.
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/tests/support/seed.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/endless_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace micro_batches_test {

constexpr std::int64_t kTokens = 40;

/// Two recurrent layers, whose blocks of several sizes don't find the same places in the first micro-batches.
class Recurrent final : public EndlessTask {
  public:
    Recurrent(Parameters& parameters, std::int64_t batch, std::int64_t width, std::int64_t block)
        : width_(width),
          ids_(randint(parameters.context(), 0, kTokens, {block, batch})),
          tokens_(nn::Path(parameters) / "tokens", kTokens, width),
          layers_(nn::Path(parameters) / "layers", {.in = width, .width = width, .layers = 2}),
          head_(nn::Path(parameters) / "head", width, kTokens, {.bias = false}) {}
    Batch batch() override { return {ids_}; }
    Loss loss(const Batch& batch) override {
        const Tensor x = layers_(tokens_(batch[0])).output.reshape({-1, width_});
        return linear_cross_entropy(x, head_.weight, batch[0].reshape({-1}));
    }

  private:
    std::int64_t width_;
    Tensor ids_;
    nn::Embedding tokens_;
    nn::Lstm layers_;
    nn::Linear head_;
};

void expect_as_predicted(std::int64_t accumulate, std::int64_t width, std::int64_t block) {
    const TrainerOptions options{
        .batch = 1, .accumulate = accumulate, .steps = 3, .schedule = {.peak = 1e-3}, .print = false};
    Context context = Context::cpu({.threads = 1, .seed = 1});
    const Report report = Trainer(task<Recurrent>(width, block), options).run(context);
    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    EXPECT_EQ(report.peak_bytes_reserved, report.forecast.peak.reserved);
}

TEST(MicroBatches, TheFourthMayTakeAPage) {
    for (const std::int64_t accumulate : {2, 4, 9}) {
        SCOPED_TRACE(accumulate);
        expect_as_predicted(accumulate, 512, 24);
    }
}

/// The third step took a page that micro-batches which were left out had led to.
TEST(MicroBatches, AreAllRehearsedUntilTheirBlocksLieAsBefore) { expect_as_predicted(11, 80, 32); }

TEST(MicroBatches, TakeWhatWasPredictedWhateverTheirNumber) {
    std::mt19937_64 random(test::random_seed());
    for (int i = 0; i < 20; ++i) {
        const auto drawn = [&](std::int64_t least, std::int64_t most) {
            return std::uniform_int_distribution<std::int64_t>(least, most)(random);
        };
        const std::int64_t accumulate = drawn(1, 12), width = 16 * drawn(4, 28), block = drawn(4, 34);
        SCOPED_TRACE(testing::Message() << accumulate << " of width " << width << " and length " << block);
        expect_as_predicted(accumulate, width, block);
    }
}

/// Ten micro-batches of an epoch make three steps of three; what is left begins the next epoch's first step.
TEST(MicroBatches, ThatFillNoStepAtAnEpochsEndCountForTheNextOne) {
    using Points = data::MemoryDataset<float>;
    class Ten final : public DataTask<Points> {
      public:
        Ten(Parameters& parameters, std::int64_t batch)
            : DataTask(parameters, shuffled(points(), points(), batch)), model_(nn::Path(parameters), 1, 1) {}
        Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1].reshape({-1, 1})); }

      private:
        static Points points() { return {std::vector<float>(20, 1), {1}, std::vector<float>(20, 2)}; }
        nn::Linear model_;
    };
    const auto steps_of = [](std::int64_t epochs, std::int64_t accumulate) {
        Context context = Context::cpu({.threads = 1});
        return Session(context, task<Ten>(), {.batch = 2, .accumulate = accumulate, .epochs = epochs}).steps();
    };
    EXPECT_EQ(steps_of(1, 3), 3);
    EXPECT_EQ(steps_of(2, 3), 6);
    EXPECT_EQ(steps_of(3, 3), 10);
    EXPECT_EQ(steps_of(1, 11), 1) << "fewer than a step has";
    EXPECT_EQ(steps_of(2, 11), 1);
    EXPECT_EQ(steps_of(3, 11), 2);
}

}  // namespace micro_batches_test
}  // namespace headroom::training
