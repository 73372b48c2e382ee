// Policies change what a training step holds, never what it computes; a dry run knows the bytes before.
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::nn {
namespace gpt_memory_test {

constexpr std::int64_t kBlock = 16;
using MakeContext = std::function<Context()>;
using Policies = std::vector<std::pair<std::string, Policy>>;

struct Setting {
    std::string name;
    Policies policies;
    std::optional<Dtype> autocast;
    std::int64_t vocabulary = 13;
    double dropout = 0.1;
    bool half_residual = false;
};

GptOptions small(const Setting& setting) {
    return {.vocabulary = setting.vocabulary,
            .block = kBlock,
            .layers = 3,
            .heads = 2,
            .width = 32,
            .dropout = setting.dropout,
            .half_residual = setting.half_residual};
}

Context cpu() { return Context::cpu({.threads = 2, .seed = 7}); }
Context dry() { return Context::dry({.threads = 2, .seed = 7}); }

struct Training {
    Training(const MakeContext& make, const Setting& setting_, const GptOptions& options)
        : context(make()), setting(setting_), parameters(context), model(Path(parameters), options) {
        for (const auto& [pattern, policy] : setting.policies) context.policy(pattern, policy);
    }
    Loss loss(std::int64_t rows, std::int64_t time) {
        std::vector<std::int32_t> ids, targets;
        for (std::int64_t i = 0; i < rows * time; ++i) {
            ids.push_back(static_cast<std::int32_t>((i * i + 3 * i) % setting.vocabulary));
            targets.push_back(static_cast<std::int32_t>((i * i + 5 * i + 4) % setting.vocabulary));
        }
        Autocast autocast(context, setting.autocast);
        return model.loss(context.from_host(ids, {rows, time}), context.from_host(targets, {rows, time}));
    }
    void step(std::int64_t rows, std::int64_t time) {
        accumulator.accumulate([&] { return loss(rows, time); });
        accumulator.step(1e-3);
    }
    std::size_t optimizer_bytes() {
        return context.memory().statistics().allocated_by_category[static_cast<std::size_t>(Category::optimizer_state)];
    }
    std::vector<double> gradients() { return test::gradients_of(parameters); }

    Context context;
    Setting setting;
    Parameters parameters;
    Gpt model;
    optim::AdamW optimizer{parameters};
    optim::GradientAccumulator accumulator{parameters, optimizer, {.clip = 1.0, .keep_gradients = true}};
};

const Policies kBlocks{{"blocks.*", recompute_all()}};
const Policies kAllButAttention{{"blocks.*", recompute_all()}, {"blocks.*.attention", keep_all()}};
const Policies kNested{{"**", recompute_all()}, {"blocks.1", keep_all()}, {"blocks.1.mlp", recompute_all()}};
const Policies kCheap{{"blocks.*", recompute_cheap()}};

const std::vector<Setting> kSettings{
    {"keep", {}, {}},
    {"keep_wide", {}, {}, 300},
    {"blocks", kBlocks, {}},
    {"blocks_wide", kBlocks, {}, 300},
    {"all_but_attention", kAllButAttention, {}},
    {"nested", kNested, {}},
    {"cheap", kCheap, {}},
    {"keep_bf16", {}, Dtype::bf16},
    {"blocks_bf16", kBlocks, Dtype::bf16},
    {"blocks_bf16_wide", kBlocks, Dtype::bf16, 300},
    {"cheap_bf16", kCheap, Dtype::bf16},
    {"half_residual", {}, Dtype::bf16, 13, 0.1, true},
    {"blocks_half_residual", kBlocks, Dtype::bf16, 13, 0.0, true},
    {"keep_f16", {}, Dtype::f16},
    {"blocks_f16", kBlocks, Dtype::f16},
    {"cheap_without_dropout", kCheap, {}, 13, 0.0},
};

class GptMemory : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, GptMemory, ::testing::ValuesIn(kSettings),
                         [](const auto& info) { return info.param.name; });

TEST_P(GptMemory, GradientsAreThoseOfKeepingEverythingBitForBit) {
    Setting keep = GetParam();
    keep.policies.clear();
    Training kept(cpu, keep, small(keep));
    Training recomputed(cpu, GetParam(), small(keep));
    for (int i = 0; i < 2; ++i) {  // the second with moments behind it
        kept.step(3, kBlock);
        recomputed.step(3, kBlock);
        EXPECT_EQ(recomputed.gradients(), kept.gradients());
    }
}

/// Training, a shorter batch, evaluation, sampling.
MemoryStatistics whole_program(const MakeContext& make, const Setting& setting) {
    Training training(make, setting, small(setting));
    for (int i = 0; i < 3; ++i) training.step(3, kBlock);
    training.step(1, kBlock - 3);
    {
        const NoGradGuard no_grad(training.context);
        training.parameters.train(false);
        for (const std::int64_t rows : {3, 2}) training.loss(rows, kBlock).sum().item();
        training.parameters.train();
    }
    Autocast autocast(training.context, setting.autocast);
    generate(training.model, {1, 2, 3}, 2 * kBlock, {});
    return training.context.memory().statistics();
}

TEST_P(GptMemory, ADryProgramPeaksAsTheRealOneToTheByte) {
    const MemoryStatistics real = whole_program(cpu, GetParam());
    const MemoryStatistics rehearsed = whole_program(dry, GetParam());
    EXPECT_EQ(rehearsed.peak_allocated, real.peak_allocated);
    EXPECT_EQ(rehearsed.peak_reserved, real.peak_reserved);
    EXPECT_EQ(rehearsed.at_peak_by_category, real.at_peak_by_category);
    EXPECT_EQ(rehearsed.allocations, real.allocations);
}

/// Peak bytes above parameters, gradients and moments, of training steps at nanoGPT's sizes but for the layers. The
/// second micro-batch of a step finds all gradients there.
std::size_t above_resident(std::int64_t layers, const Policies& policies) {
    const Setting setting{"", policies, {}, 65, 0.0};
    Training training(dry, setting, {.vocabulary = 65, .block = 64, .layers = layers, .heads = 4, .width = 128});
    for (int i = 0; i < 2; ++i) training.accumulator.accumulate([&] { return training.loss(12, 64); });
    const MemoryStatistics statistics = training.context.memory().statistics();
    std::size_t resident = training.optimizer_bytes();
    for (const Parameter& parameter : training.parameters.all()) {
        resident += 2 * static_cast<std::size_t>(parameter.room) * sizeof(float);
    }
    return statistics.peak_allocated - resident;
}

TEST(GptMemoryOfManyBlocks, RecomputingEachOfTwelveBlocksTakesAQuarterAtMost) {
    const std::size_t keep = above_resident(12, {}), recompute = above_resident(12, kBlocks);
    ::testing::Test::RecordProperty("keep", static_cast<int>(keep));
    ::testing::Test::RecordProperty("recompute", static_cast<int>(recompute));
    EXPECT_LE(static_cast<double>(recompute), 0.25 * static_cast<double>(keep)) << recompute << " of " << keep;
}

TEST(GptMemoryOfManyBlocks, OneMoreRecomputedBlockCostsItsBorderAlone) {
    const std::size_t border = 12 * 64 * 128 * sizeof(float);
    EXPECT_EQ(above_resident(13, kBlocks) - above_resident(12, kBlocks), border);
}

}  // namespace gpt_memory_test
}  // namespace headroom::nn
