#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace accumulator_gpt_test {

constexpr std::int64_t kBlock = 16;
constexpr AdamWOptions kAdamW{.beta2 = 0.99, .weight_decay = 0.1};

using MakeContext = std::function<Context()>;

nn::GptOptions options(std::int64_t vocabulary, double dropout) {
    return {.vocabulary = vocabulary, .block = kBlock, .layers = 3, .heads = 2, .width = 32, .dropout = dropout};
}

/// A small GPT-2 with its optimizer; `vocabulary` decides whether logits are stored whole.
struct Training {
    Training(const MakeContext& make, Dtype dtype, std::int64_t vocabulary_, double dropout = 0.0)
        : context(make()),
          parameters(context, {.dtype = dtype}),
          model(nn::Path(parameters), options(vocabulary_, dropout)),
          vocabulary(vocabulary_) {}

    /// Sequences `first` to `first + count` of an endless, fixed supply.
    Loss loss(std::int64_t first, std::int64_t count) {
        std::vector<std::int32_t> ids, targets;
        for (std::int64_t i = first * kBlock; i < (first + count) * kBlock; ++i) {
            ids.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
            targets.push_back(static_cast<std::int32_t>((i * i + 5 * i + 4) % vocabulary));
        }
        const Tensor x = context.from_host(ids, {count, kBlock});
        return model.loss(x, context.from_host(targets, {count, kBlock}));
    }
    StepResult step(const std::vector<std::int64_t>& sizes) {
        std::int64_t first = next;
        for (const std::int64_t size : sizes) {
            accumulator.accumulate([&] { return loss(first, size); });
            first += size;
        }
        next = first;
        accumulator.step(1e-3);
        return accumulator.result();
    }
    std::vector<double> mean_gradient(const StepResult& result) {
        std::vector<double> gradient = test::gradients_of(parameters);
        for (double& x : gradient) x *= result.multiplier;
        return gradient;
    }

    Context context;
    Parameters parameters;
    nn::Gpt model;
    std::int64_t vocabulary;
    std::int64_t next = 0;
    AdamW optimizer{parameters, kAdamW};
    GradientAccumulator accumulator{parameters, optimizer, {.clip = 1.0, .keep_gradients = true}};
};

Context cpu() { return Context::cpu({.threads = 2, .seed = 4}); }

const std::vector<std::int64_t> kWhole{16}, kEight(8, 2), kUneven{1, 6, 4, 5};  // the same sequences
const std::vector<std::int64_t> kOne{2}, kTwo{2, 2}, kShortLast{2, 2, 1};

class AccumulatorOfGpt : public ::testing::TestWithParam<std::int64_t> {};

INSTANTIATE_TEST_SUITE_P(Vocabularies, AccumulatorOfGpt, ::testing::Values(11, 600),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(AccumulatorOfGpt, MicroBatchesEqualTheBigBatch) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
        Training whole(cpu, dtype, GetParam());
        const std::vector<double> expected = whole.mean_gradient(whole.step(kWhole));
        double largest = 0;
        for (const double x : expected) largest = std::max(largest, std::abs(x));
        ASSERT_GT(largest, 1e-3);
        for (const auto& sizes : {kEight, kUneven}) {
            Training parts(cpu, dtype, GetParam());
            const std::vector<double> gradient = parts.mean_gradient(parts.step(sizes));
            double difference = 0;
            for (std::size_t i = 0; i < gradient.size(); ++i) {
                difference = std::max(difference, std::abs(gradient[i] - expected[i]));
            }
            EXPECT_LE(difference, largest * (dtype == Dtype::f64 ? 1e-12 : 1e-6)) << name(dtype);
        }
    }
}

MemoryStatistics train(const MakeContext& make, std::int64_t vocabulary, const std::vector<std::int64_t>& sizes,
                       bool recompute) {
    Training training(make, Dtype::f32, vocabulary, 0.1);
    if (recompute) training.context.policy("blocks.*", recompute_all());
    for (int i = 0; i < 3; ++i) training.step(sizes);
    return training.context.memory().statistics();
}

TEST_P(AccumulatorOfGpt, EightMicroBatchesPeakAtWhatTwoDo) {
    for (const bool recompute : {false, true}) {
        const MemoryStatistics one = train(cpu, GetParam(), kOne, recompute);
        const MemoryStatistics two = train(cpu, GetParam(), kTwo, recompute);
        const MemoryStatistics eight = train(cpu, GetParam(), kEight, recompute);
        EXPECT_EQ(eight.peak_allocated, two.peak_allocated);
        EXPECT_EQ(eight.peak_reserved, two.peak_reserved);
        EXPECT_LT(one.peak_allocated, two.peak_allocated);
    }
}

TEST_P(AccumulatorOfGpt, ADryRunPeaksAsTheRealOne) {
    const Profile profile = cpu().profile();
    for (const bool recompute : {false, true}) {
        const MemoryStatistics real = train(cpu, GetParam(), kShortLast, recompute);
        const MemoryStatistics dry = train([&] { return Context::dry(profile); }, GetParam(), kShortLast, recompute);
        EXPECT_EQ(dry.peak_allocated, real.peak_allocated);
        EXPECT_EQ(dry.peak_reserved, real.peak_reserved);
        EXPECT_EQ(dry.allocations, real.allocations);
    }
}

TEST_P(AccumulatorOfGpt, ResumesBitForBitWithDropout) {
    Training whole(cpu, Dtype::f32, GetParam(), 0.1);
    for (int i = 0; i < 5; ++i) whole.step(kShortLast);
    Training first(cpu, Dtype::f32, GetParam(), 0.1);
    for (int i = 0; i < 2; ++i) first.step(kShortLast);

    Training second(cpu, Dtype::f32, GetParam(), 0.1);
    test::copy_training(first.parameters, first.optimizer, second.parameters, second.optimizer);
    second.context.set_random_counter(first.context.random_counter());
    second.next = first.next;
    for (int i = 0; i < 3; ++i) second.step(kShortLast);
    EXPECT_EQ(test::values_of(second.parameters), test::values_of(whole.parameters));
}

TEST(AccumulatorOfGptRecomputed, GivesTheSameBitsAsKeptActivations) {
    std::vector<double> values[2];
    for (const bool recompute : {false, true}) {
        Training training(cpu, Dtype::f32, 11, 0.1);
        if (recompute) training.context.policy("blocks.*", recompute_all());
        for (int i = 0; i < 3; ++i) training.step(kShortLast);
        values[recompute] = test::values_of(training.parameters);
    }
    EXPECT_EQ(values[0], values[1]);
}

}  // namespace accumulator_gpt_test
}  // namespace headroom::optim
