// Whole training steps on a GPU, or in the emulator: what the CPU computes, in memory known before, without the host
// waiting.
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::nn {
namespace training_cuda_test {

using MakeContext = std::function<Context()>;
using Doubles = std::vector<double>;

constexpr std::int64_t kBlock = 17, kRows = 2, kWidth = 32, kLayers = 2, kVocabulary = 37;

struct Setting {
    std::string name;
    std::optional<Dtype> autocast{};
    double dropout = 0;
    std::vector<std::pair<std::string, Policy>> policies{};
    std::int64_t micro_batches = 1;
    bool half_residual = false;
};

struct Training {
    Training(const MakeContext& make, const Setting& setting_, Dtype dtype = Dtype::f32)
        : context(make()),
          setting(setting_),
          parameters(context, {.dtype = dtype}),
          model(Path(parameters), {.vocabulary = kVocabulary,
                                   .block = kBlock,
                                   .layers = kLayers,
                                   .heads = 2,
                                   .width = kWidth,
                                   .dropout = setting_.dropout,
                                   .half_residual = setting_.half_residual}) {
        for (const auto& [pattern, policy] : setting.policies) context.policy(pattern, policy);
    }
    void step() {
        for (std::int64_t i = 0; i < setting.micro_batches; ++i) accumulator.accumulate([&] { return loss(); });
        accumulator.step(1e-2);
    }
    Loss loss() {
        std::vector<std::int32_t> ids, targets;
        for (std::int64_t i = 0; i < kRows * kBlock; ++i) {
            ids.push_back(static_cast<std::int32_t>((i * i + 3 * i) % kVocabulary));
            targets.push_back(static_cast<std::int32_t>((i * i + 5 * i + 4) % kVocabulary));
        }
        Autocast autocast(context, setting.autocast);
        return model.loss(context.from_host(ids, {kRows, kBlock}), context.from_host(targets, {kRows, kBlock}));
    }
    Doubles gradients() {
        Doubles gradient = test::gradients_of(parameters);
        for (double& x : gradient) x *= accumulator.result().multiplier;
        return gradient;
    }
    Doubles values() { return test::values_of(parameters); }

    Context context;
    Setting setting;
    Parameters parameters;
    Gpt model;
    optim::AdamW optimizer{parameters};
    optim::GradientAccumulator accumulator{
        parameters,
        optimizer,
        {.clip = 1.0,
         .scale = setting.autocast == Dtype::f16 ? optim::LossScale::dynamic() : optim::LossScale(),
         .keep_gradients = true}};
};

Context cpu() { return Context::cpu({.threads = 2, .seed = 7}); }
Context cuda() { return Context::cuda(0, {.seed = 7}); }

/// |a - b| / |b|
double relative_error(const Doubles& a, const Doubles& b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return std::sqrt(difference / norm);
}

/// Roundings on the longest way through the model and back, each sum of n terms counting for n: an error in f32 is at
/// most so many epsilons to first order.
double steps() {
    constexpr double block = 3 * kWidth + kWidth + kWidth + 4 * kWidth + 2 * kBlock + 4 * kWidth;
    return 2 * (kLayers * block + 2 * kWidth + kVocabulary + kRows * kBlock);
}

class TrainingCuda : public testing::TestWithParam<Setting> {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};

/// Halves round what they store: the CPU's do as well, so that a GPU may be off by as much.
TEST_P(TrainingCuda, GradientsAndParametersAreAsNearToF64AsTheCpus) {
    Setting exact_setting = GetParam();
    exact_setting.autocast = std::nullopt;
    Training exact(cpu, exact_setting, Dtype::f64), host(cpu, GetParam()), device(cuda, GetParam());
    for (Training* each : {&exact, &host, &device}) each->step();
    const double bound = steps() * epsilon(Dtype::f32);
    const double allowed = GetParam().autocast ? 2 * relative_error(host.gradients(), exact.gradients()) : 0.0;
    EXPECT_LE(relative_error(device.gradients(), exact.gradients()), allowed + bound);
    EXPECT_NEAR(device.accumulator.result().loss, exact.accumulator.result().loss,
                (allowed + bound) * exact.accumulator.result().loss);
    for (int i = 0; i < 3; ++i) device.step(), host.step();
    EXPECT_LT(device.accumulator.result().loss, 0.98 * exact.accumulator.result().loss);
    EXPECT_NEAR(device.accumulator.result().loss, host.accumulator.result().loss,
                0.02 * host.accumulator.result().loss);
    EXPECT_EQ(device.optimizer.steps(), host.optimizer.steps());
}

/// Of compute capability 7.5: in f16 and f32 as on any other GPU, with the memory that was rehearsed; bf16 is refused
/// before anything is allocated.
TEST_P(TrainingCuda, AnOldGpuTrainsInF16AndF32) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "only the emulator has one for certain";
    const auto old = [] { return Context::cuda(2, {.seed = 7}); };
    Training device(old, GetParam());
    ASSERT_EQ(device.context.profile().model.capability, 75);
    if (GetParam().autocast == Dtype::bf16) {
        const std::size_t before = device.context.memory().statistics().peak_allocated;
        EXPECT_THROW(device.loss(), DtypeError);
        EXPECT_EQ(device.context.memory().statistics().peak_allocated, before);
        return;
    }
    Training other(cuda, GetParam());
    Training rehearsed([&] { return Context::dry(device.context.profile()); }, GetParam());
    for (Training* each : {&device, &other, &rehearsed}) each->step();
    EXPECT_EQ(device.values(), other.values()) << "heads are narrow: blocks are as large";
    EXPECT_EQ(device.context.memory().statistics().peak_allocated,
              rehearsed.context.memory().statistics().peak_allocated);
}

TEST_P(TrainingCuda, StepsRepeatBitForBit) {
    Training first(cuda, GetParam()), second(cuda, GetParam());
    for (int i = 0; i < 2; ++i) first.step(), second.step();
    EXPECT_EQ(first.values(), second.values());
}

TEST_P(TrainingCuda, RecomputingGivesTheSameBits) {
    Setting recomputing = GetParam();
    recomputing.policies = {{"blocks.*", recompute_all()}};
    Training kept(cuda, GetParam()), recomputed(cuda, recomputing);
    for (int i = 0; i < 2; ++i) kept.step(), recomputed.step();
    EXPECT_EQ(kept.values(), recomputed.values());
}

TEST_P(TrainingCuda, ADryRunPeaksAsTheRealOne) {
    const Profile profile = cuda().profile();
    Training real(cuda, GetParam()), dry([&] { return Context::dry(profile); }, GetParam());
    for (int i = 0; i < 3; ++i) real.step(), dry.step();
    const MemoryStatistics a = real.context.memory().statistics(), b = dry.context.memory().statistics();
    EXPECT_EQ(a.peak_allocated, b.peak_allocated);
    EXPECT_EQ(a.peak_reserved, b.peak_reserved);
    EXPECT_EQ(a.allocations, b.allocations);
}

TEST_P(TrainingCuda, TheHostWaitsForNothing) {
    Training training(cuda, GetParam());
    training.step();
    const std::int64_t waits = training.context.gpu()->host_waits();
    for (int i = 0; i < 3; ++i) training.step();
    EXPECT_EQ(training.context.gpu()->host_waits(), waits);
    training.accumulator.result();
    EXPECT_EQ(training.context.gpu()->host_waits(), waits + 1);
}

TEST_P(TrainingCuda, EachStepLaunchesAsManyKernels) {
    Training training(cuda, GetParam());
    std::vector<std::int64_t> launches{training.context.gpu()->launches()};
    for (int i = 0; i < 3; ++i) {
        training.step();
        launches.push_back(training.context.gpu()->launches());
    }
    EXPECT_GT(launches[2], launches[1]);
    EXPECT_EQ(launches[3] - launches[2], launches[2] - launches[1]);
}

INSTANTIATE_TEST_SUITE_P(Settings, TrainingCuda,
                         testing::Values(Setting{"f32", std::nullopt}, Setting{"bf16", Dtype::bf16},
                                         Setting{"f16", Dtype::f16}, Setting{"dropout", std::nullopt, 0.1},
                                         Setting{"accumulating", Dtype::bf16, 0.0, {}, 3},
                                         Setting{"half_residual", Dtype::bf16, 0.1, {}, 1, true}),
                         [](const auto& info) { return info.param.name; });

class ContextCuda : public testing::Test {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};

TEST_F(ContextCuda, TellsABadIndexWithTheModuleWhereTheHostWaitsNext) {
    Training training(cuda, {"f32", std::nullopt});
    const std::vector<std::int32_t> ids{1, 2, kVocabulary, 4};
    const Tensor logits = training.model(training.context.from_host(ids, {1, 4}));
    try {
        logits.to_vector<float>();
        FAIL() << "a bad index went unnoticed";
    } catch (const ShapeError& error) {
        EXPECT_EQ(std::string(error.what()), "embedding: index 37 at position 2 is outside of [0, 37), in tokens");
    }
    EXPECT_NO_THROW(logits.to_vector<float>());  // told once; the context goes on
}

TEST_F(ContextCuda, RefusesADeviceThatIsNotThere) {
    EXPECT_THROW(Context::cuda(-1), DeviceError);
    EXPECT_THROW(Context::cuda(kernels::cuda_device_count()), DeviceError);
}

TEST_F(ContextCuda, RunsOutOfMemoryWithTheReport) {
    Context context = Context::cuda(0, {.memory_limit = 8 << 20});
    EXPECT_THROW(context.from_host(std::vector<float>(4 << 20), {4 << 20}), OutOfMemory);
    EXPECT_EQ(context.from_host(std::vector<float>{3.0f}, {1}).item(), 3.0);
}

}  // namespace training_cuda_test
}  // namespace headroom::nn
