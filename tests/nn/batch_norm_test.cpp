// Running statistics: what changes them, and what does not.
#include <headroom/nn/batch_norm.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/group_norm.hpp>
#include <headroom/tests/nn/norm_training.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom::nn {
namespace batch_norm_test {

using test::kChannels;
using ::testing::HasSubstr;
using Training = test::NormTraining;

Context cpu() { return Context::cpu({.threads = 1, .seed = 2}); }

TEST(BatchNorm2d, RunningStatisticsTakeInEachMicroBatchOnce) {
    Training training(cpu);
    std::vector<double> mean(kChannels, 0), variance(kChannels, 1);
    for (int i = 0; i < 3; ++i) {
        const Tensor columns = training.input().permute({1, 0, 2, 3}).reshape({kChannels, 36});
        training.next -= 4 * kChannels * 9;
        const std::vector<double> m = headroom::mean(columns, 1).to_vector<double>(),
                                  v = var(columns, 1).to_vector<double>();
        for (std::size_t c = 0; c < mean.size(); ++c) {
            mean[c] = 0.9 * mean[c] + 0.1 * m[c];
            variance[c] = 0.9 * variance[c] + 0.1 * v[c];
        }
        training.accumulate();
    }
    EXPECT_EQ(training.batches(), 3);
    const std::vector<double> got = training.state("bn1.running_mean"), other = training.state("bn1.running_var");
    for (std::size_t c = 0; c < mean.size(); ++c) {
        EXPECT_NEAR(got[c], mean[c], 64 * 0x1p-24);
        EXPECT_NEAR(other[c], variance[c], 64 * 0x1p-24);
    }
    training.accumulator.step(0.1);
    EXPECT_EQ(training.state("bn1.running_mean"), got) << "a step is no batch";
}

TEST(BatchNorm2d, WithoutMomentumIsTheAverageOfAllBatches) {
    Context context = cpu();
    Parameters parameters(context);
    const BatchNorm2d norm(Path(parameters) / "bn", 1, {.momentum = {}});
    for (const float value : {1.0f, 2.0f, 6.0f}) {
        backward(sum(norm(context.from_host(std::vector<float>{value - 1, value + 1}, {2, 1}))));
    }
    EXPECT_NEAR(norm.running_mean.item(), 3, 1e-6);
    EXPECT_NEAR(norm.running_var.item(), 2, 1e-6);
}

TEST(BatchNorm2d, StatisticsThatABackwardNeedsMustNotChange) {
    Context context = cpu();
    Parameters parameters(context);
    const BatchNorm2d norm(Path(parameters) / "bn", 1);
    const Tensor x = ones(context, {4, 1}).detach().requires_grad_(), loss = sum(x * norm.running_var);
    {
        const NoGradGuard no_grad(context);
        norm(randn(context, {4, 1}));
    }
    EXPECT_THROW(backward(loss), Error);
}

TEST(BatchNorm2d, RecomputationChangesNeitherBitsNorHowOftenABatchCounts) {
    Training kept(cpu);
    kept.accumulate(), kept.accumulator.step(0.1), kept.accumulate();
    for (const Policy& policy : {recompute_all(), recompute_cheap()}) {
        Training again(cpu);
        again.context.policy("", policy);
        again.accumulate(), again.accumulator.step(0.1), again.accumulate();
        EXPECT_GT(again.context.tape().statistics().replayed, 0u);
        for (const Parameter& each : kept.parameters.all()) {
            EXPECT_EQ(again.state(each.path.c_str()), kept.state(each.path.c_str())) << each.path;
            EXPECT_EQ(again.parameters.at(each.path).tensor.grad().defined(), each.tensor.grad().defined());
            if (each.tensor.grad().defined()) {
                EXPECT_EQ(again.parameters.at(each.path).tensor.grad().to_vector<float>(),
                          each.tensor.grad().to_vector<float>());
            }
        }
        EXPECT_EQ(again.batches(), 2);
    }
}

TEST(BatchNorm2d, AReplayHasTheStatisticsAlready) {
    Training training(cpu);
    training.context.policy("**", recompute_cheap());
    const Loss loss = training.loss(training.input());
    const std::uint64_t before = training.context.tape().statistics().replayed;
    backward(loss.sum());
    EXPECT_EQ(training.context.tape().statistics().replayed - before, 2u) << "the first norm and the square";
}

TEST(BatchNorm2d, AMicroBatchThatFailsIsNotTakenIn) {
    for (const bool in_backward : {false, true}) {
        Training training(cpu);
        training.accumulate(), training.accumulator.step(0.1);
        const std::vector<double> before = training.state();
        const Tensor x = training.input();
        toy::Faults faults;
        (in_backward ? faults.backward : faults.forward) = 0;
        const auto micro_batch = [&] { return Loss(toy::fragile(training.loss(x).sum(), faults), 1); };
        EXPECT_ANY_THROW(training.accumulator.accumulate(micro_batch));
        EXPECT_EQ(training.state(), before);
        if (in_backward) training.accumulator.reset();
        training.accumulator.accumulate(micro_batch);
        EXPECT_NE(training.state(), before);
        EXPECT_EQ(training.batches(), 2);
    }
}

TEST(BatchNorm2d, ABatchThatIsNotFiniteIsNotTakenIn) {
    Training training(cpu);
    training.accumulate(), training.accumulator.step(0.1);
    const std::vector<double> before = training.state();
    training.accumulate(std::numeric_limits<double>::infinity());
    EXPECT_EQ(training.state(), before);
    // Statistics that are finite, of a batch whose loss is not.
    const Tensor x = training.input();
    training.accumulator.accumulate([&] { return Loss(training.loss(x).sum() / 0.0, 1); });
    EXPECT_EQ(training.state(), before);
    EXPECT_EQ(training.batches(), 1);
    training.accumulator.step(0.1);
    EXPECT_TRUE(training.accumulator.result().skipped);
}

TEST(BatchNorm2d, ResultsThatNobodyUsesAreNotTakenIn) {
    Training training(cpu);
    training.model(training.input());
    EXPECT_EQ(training.context.tape().size(), 0u) << "nothing holds the records";
    training.accumulate();
    EXPECT_EQ(training.batches(), 1);
}

TEST(BatchNorm2d, TakesInABatchAtOnceWhereNothingIsRecorded) {
    Training training(cpu);
    const NoGradGuard no_grad(training.context);
    training.model(training.input());
    EXPECT_EQ(training.batches(), 1);
    training.model(training.input(std::numeric_limits<double>::quiet_NaN()));
    EXPECT_EQ(training.batches(), 1);
}

TEST(BatchNorm2d, EvaluatesByTheRunningStatistics) {
    Training training(cpu);
    training.accumulate();
    training.parameters.train(false);
    const std::vector<double> before = training.state();
    Tensor x = training.input();
    const std::vector<float> whole = training.model(x).to_vector<float>();
    const std::vector<float> first = training.model(x.slice(0, 0, 1)).to_vector<float>();
    EXPECT_EQ(std::vector<float>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(first.size())), first);
    backward(training.loss(x).sum());
    EXPECT_TRUE(training.parameters.at("bn1.weight").tensor.grad().defined());
    EXPECT_EQ(training.state(), before);
}

TEST(BatchNorm2d, FrozenHasNoGradientAndNeverChanges) {
    Context context = cpu();
    Parameters parameters(context);
    const BatchNorm2d norm(Path(parameters) / "bn", 2, {.frozen = true});
    const Tensor x = randn(context, {1, 2, 1, 1}).detach().requires_grad_();
    backward(sum(norm(x)));
    EXPECT_TRUE(x.grad().defined());
    EXPECT_EQ(parameters.count(), 0);
    EXPECT_EQ(norm.running_mean.to_vector<float>(), (std::vector<float>{0, 0}));
    std::vector<std::string> names;
    for (const Parameter& each : parameters.all()) names.push_back(each.path);
    EXPECT_EQ(names, (std::vector<std::string>{"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}));
}

TEST(BatchNorm2d, ARehearsalKnowsThePeak) {
    Training training(cpu);
    Training dry([&] { return Context::dry(training.context.profile()); });
    for (Training* each : {&training, &dry}) {
        for (int i = 0; i < 3; ++i) each->accumulate(), each->accumulate(), each->accumulator.step(0.1);
    }
    const auto measured = training.context.memory().statistics(), predicted = dry.context.memory().statistics();
    EXPECT_EQ(predicted.peak_allocated, measured.peak_allocated);
    EXPECT_EQ(predicted.peak_reserved, measured.peak_reserved);
}

TEST(Norms, RefuseInOneLine) {
    Context context = cpu();
    Parameters parameters(context);
    const Path root(parameters);
    const auto message = [](const std::function<void()>& call) -> std::string {
        try {
            call();
        } catch (const Error& error) {
            return error.what();
        }
        return "nothing was thrown";
    };
    const BatchNorm2d norm(root / "a", 3, {.affine = false});
    const InstanceNorm instance(root / "b", 3);
    EXPECT_THAT(message([&] { BatchNorm2d(root / "c", 3, {.momentum = 2}); }), HasSubstr("momentum"));
    EXPECT_THAT(message([&] { GroupNorm(root / "d", 2, 3); }), HasSubstr("2 groups do not divide 3 channels"));
    EXPECT_THAT(message([&] { norm(ones(context, {2, 4})); }), HasSubstr("running_mean, [3]"));
    EXPECT_THAT(message([&] { norm(ones(context, {1, 3})); }), HasSubstr("one value per channel"));
    EXPECT_THAT(message([&] { norm(Tensor()); }), HasSubstr("x is an undefined tensor"));
    EXPECT_THAT(message([&] { instance(ones(context, {2, 4, 5})); }), HasSubstr("[N, 3, ...]"));
}

}  // namespace batch_norm_test
}  // namespace headroom::nn
