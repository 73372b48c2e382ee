// A training whose batches are copied while the GPU computes is the one whose batches are not, to the bit.
#include <random>

#include <gtest/gtest.h>

#include <headroom/data/feed.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/data/any_order.hpp>
#include <headroom/tests/support/parameters.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom {
namespace feed_training_cuda_test {

constexpr std::int64_t kBlock = 9, kVocabulary = 19, kKept = 20;

enum class Upload { at_once, fed };

struct Training {
    template <class MakeContext>
    Training(MakeContext make, Upload upload_, std::uint64_t seed)
        : context(make()),
          upload(upload_),
          random(seed),
          parameters(context),
          model(nn::Path(parameters),
                {.vocabulary = kVocabulary, .block = kBlock, .layers = 1, .heads = 2, .width = 16}),
          optimizer(parameters),
          accumulator(parameters, optimizer, {.clip = 1.0, .kept_results = kKept}),
          feed(context) {}

    Loss loss() {
        const auto rows = static_cast<std::int64_t>(1 + random() % 3);
        const auto length = static_cast<std::int64_t>(1 + random() % kBlock);
        std::vector<std::int32_t> ids(static_cast<std::size_t>(rows * length)), targets(ids.size());
        for (auto& id : ids) id = static_cast<std::int32_t>(random() % kVocabulary);
        for (auto& target : targets) target = static_cast<std::int32_t>(random() % kVocabulary);
        const Shape shape{rows, length};
        if (upload == Upload::at_once) {
            return model.loss(context.from_host(ids, shape), context.from_host(targets, shape));
        }
        const auto [x, y] = feed.upload({{ids, shape}, {targets, shape}});
        return model.loss(x, y);
    }
    void step(std::int64_t micro_batches) {
        for (std::int64_t i = 0; i < micro_batches; ++i) accumulator.accumulate([&] { return loss(); });
        accumulator.step(1e-2);
    }
    std::vector<double> values() { return test::values_of(parameters); }

    Context context;
    Upload upload;
    std::mt19937_64 random;
    Parameters parameters;
    nn::Gpt model;
    optim::AdamW optimizer;
    optim::GradientAccumulator accumulator;
    data::Feed feed;
};

Context cuda() { return Context::cuda(0, {.seed = 3}); }

using FeedTrainingCuda = test::AnyOrder;

INSTANTIATE_TEST_SUITE_P(Orders, FeedTrainingCuda, test::any_order(), test::order_name);

TEST_P(FeedTrainingCuda, HasTheBitsOfOneWithoutAFeedAndNeverWaits) {
    const std::uint64_t seed = test::random_seed();
    Training plain(cuda, Upload::at_once, seed), fed(cuda, Upload::fed, seed);
    set_order(fed.context);
    const std::int64_t waits = fed.context.gpu()->host_waits();
    for (std::int64_t i = 0; i < 6; ++i) {
        plain.step(1 + i % 3);
        fed.step(1 + i % 3);
    }
    EXPECT_EQ(fed.context.gpu()->host_waits(), waits);
    const std::vector<optim::StepResult> want = plain.accumulator.results(), got = fed.accumulator.results();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[i].loss, want[i].loss) << "step " << i;
        EXPECT_EQ(got[i].terms, want[i].terms) << "step " << i;
    }
    EXPECT_EQ(fed.values(), plain.values());
}

TEST_P(FeedTrainingCuda, ADryRunPeaksAsTheRealOne) {
    const std::uint64_t seed = test::random_seed();
    const Profile profile = cuda().profile();
    Training real(cuda, Upload::fed, seed), dry([&] { return Context::dry(profile); }, Upload::fed, seed);
    set_order(real.context);
    for (int i = 0; i < 3; ++i) real.step(2), dry.step(2);
    const MemoryStatistics a = real.context.memory().statistics(), b = dry.context.memory().statistics();
    EXPECT_EQ(a.peak_allocated, b.peak_allocated);
    EXPECT_EQ(a.peak_reserved, b.peak_reserved);
    EXPECT_EQ(a.allocations, b.allocations);
}

TEST_P(FeedTrainingCuda, MakesItsEventsBeforeTheFirstStep) {
    Training training(cuda, Upload::fed, test::random_seed());
    const kernels::EmulatedControls* const controls = emulated(training.context);
    if (!controls) GTEST_SKIP() << "nobody counts a GPU's events";
    const std::int64_t events = controls->events();
    for (std::int64_t i = 0; i <= kKept; ++i) training.step(1);
    EXPECT_EQ(controls->events(), events);
}

/// The host reads what a step came to while the GPU has the next one before it.
TEST_P(FeedTrainingCuda, ResultsOfEarlierStepsDoNotWaitForLaterOnes) {
    const std::uint64_t seed = test::random_seed();
    Training all(cuda, Upload::fed, seed), early(cuda, Upload::fed, seed);
    set_order(early.context);
    const kernels::EmulatedControls* const controls = emulated(early.context);
    std::vector<optim::StepResult> results;
    const auto read = [&](std::int64_t leave) {
        const std::int64_t waits = early.context.gpu()->host_waits();
        const std::vector<optim::StepResult> part = early.accumulator.results(leave);
        EXPECT_EQ(early.context.gpu()->host_waits(), waits + (part.empty() ? 0 : 1));
        results.insert(results.end(), part.begin(), part.end());
    };
    for (std::int64_t i = 0; i < 5; ++i) {
        all.step(1);
        early.step(1);
        read(1);
        EXPECT_EQ(static_cast<std::int64_t>(results.size()), i);
        EXPECT_EQ(early.accumulator.unread(), 1);
        if (controls && GetParam() == kernels::EmulatedOrder::copies_first) {
            EXPECT_FALSE(controls->idle());
        }
    }
    read(0);
    if (controls) {
        EXPECT_TRUE(controls->idle());
    }
    const std::vector<optim::StepResult> want = all.accumulator.results();
    ASSERT_EQ(results.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(results[i].loss, want[i].loss) << "step " << i;
    EXPECT_THROW(early.accumulator.results(-1), Error);
}

/// Of a GPU and of its rehearsal: two batches are held, however many make a step.
TEST(FeedTraining, AccumulatingTakesNoMoreMemory) {
    const auto peak = [](std::int64_t micro_batches) {
        Training training([] { return Context::dry(Profile::gpu(1 << 30)); }, Upload::fed, 7);
        for (int i = 0; i < 2; ++i) training.step(micro_batches);
        return training.context.memory().statistics().allocated;
    };
    EXPECT_EQ(peak(2), peak(9));
}

}  // namespace feed_training_cuda_test
}  // namespace headroom
