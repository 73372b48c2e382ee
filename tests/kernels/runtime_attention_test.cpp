// What cuDNN is told of an attention, by a stand-in for its frontend that computes the graph as it is described.
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/sdpa_choices.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/attention_trial.hpp>
#include <headroom/tests/kernels/fake_cudnn/cudnn_frontend.h>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {
namespace runtime_attention_test {

using test::TestArray;
using Case = test::AttentionCase;
using Trial = test::AttentionTrial;

class RuntimeAttention : public testing::Test {
  protected:
    RuntimeAttention() {
        fake_runtime::reset(2);
        open_cudnn({.capability = 90, .stream = nullptr, .description = "{}"},
                   {HEADROOM_FAKE_CUDNN});  // opened for all
        device = open_cuda_device(0);
        stream.device = device.get();
    }
    ~RuntimeAttention() override {
        headroom_cudnn_frontend::take_more_scratch(0);
        headroom_cudnn_frontend::fail_always(false);
        device->synchronize();
        EXPECT_EQ(fake_runtime::problem(), "");
    }
    /// Arrays of which each has strides of its own.
    Trial trial(const Case& c, Dtype dtype) {
        Trial result(c, dtype, test::Layout::contiguous, random, dtype);
        std::int64_t gap = 8;
        for (TestArray Trial::*const array :
             {&Trial::q, &Trial::k, &Trial::v, &Trial::o, &Trial::dy, &Trial::dq, &Trial::dk, &Trial::dv}) {
            const Shape& shape = (result.*array).view().shape;
            const std::int64_t head = shape[3] + gap, position = shape[2] * head + gap;
            const TestArray placed(result.*array, {shape[1] * position + gap, position, head, 1}, 0);
            std::destroy_at(&(result.*array));
            std::construct_at(&(result.*array), placed);
            gap += 8;
        }
        return result;
    }
    /// As much scratch as was reckoned with, and what lies behind it untouched.
    void run(Trial& t, const ComputeOptions& options = {}) {
        const auto forward = plan_sdpa(t.forward());
        const auto gradient = plan_sdpa(t.gradient(), options);
        ASSERT_TRUE(forward && gradient);
        const std::size_t bytes = std::max(sdpa_scratch(forward), sdpa_scratch(gradient));
        std::vector<std::byte> scratch(bytes + 64, std::byte{0xcd});
        stream.compute = options;
        ASSERT_TRUE(attention_by_library(stream, *forward, t.forward(), scratch.data()));
        ASSERT_TRUE(attention_gradient_by_library(stream, *gradient, t.gradient(), scratch.data()));
        device->synchronize();
        EXPECT_TRUE(fake_runtime::idle());
        for (std::size_t i = bytes; i < scratch.size(); ++i) ASSERT_EQ(scratch[i], std::byte{0xcd});
    }

    std::mt19937_64 random{3};
    StreamState state;
    std::unique_ptr<CudaDevice> device;
    CudaStream stream{.threads = 1, .state = &state};
};

/// Squares; a key-value cache, where a causal mask begins elsewhere; more queries than keys; grouped heads.
const Case kCases[] = {{2, 64, 64, 2, 2, 16, true}, {2, 64, 81, 4, 2, 16, true}, {1, 72, 65, 2, 1, 8, false}};

TEST_F(RuntimeAttention, IsDescribedAsItIs) {
    for (const Case& c : kCases) {
        for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
            SCOPED_TRACE(text(c, dtype));
            Trial t = trial(c, dtype);
            run(t);
            expect_matches(t, 0, test::Weights::rounded_also_per_head);
            for (TestArray Trial::*const array : {&Trial::o, &Trial::dq, &Trial::dk, &Trial::dv})
                EXPECT_TRUE((t.*array).gaps_untouched());
        }
    }
}

/// In parts, where the budget for scratch is small.
TEST_F(RuntimeAttention, PartsMakeTheWhole) {
    Trial t = trial({2, 64, 64, 4, 2, 16, true}, Dtype::bf16);
    run(t, {.scratch_budget = (std::size_t{64} << 10) + 60000});
    expect_matches(t, 0, test::Weights::rounded_also_per_head);
}

TEST_F(RuntimeAttention, GradientsRepeatBitForBitUnlessThatIsWaived) {
    for (const bool deterministic : {true, false}) {
        Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
        run(t, {.deterministic = deterministic});
        const std::vector<double> first = t.dq.values();
        run(t, {.deterministic = deterministic});
        EXPECT_EQ(t.dq.values() == first, deterministic);
    }
}

TEST_F(RuntimeAttention, APlanWithMoreScratchThanWasReckonedWithIsRefused) {
    headroom_cudnn_frontend::take_more_scratch(std::int64_t{1} << 20);
    Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    EXPECT_FALSE(attention_by_library(stream, *plan_sdpa(t.forward()), t.forward(), nullptr));
    EXPECT_FALSE(attention_gradient_by_library(stream, *plan_sdpa(t.gradient()), t.gradient(), nullptr));
    EXPECT_NE(attention_library(stream).find("bytes of scratch, more than"), std::string::npos);
}

TEST_F(RuntimeAttention, SaysThatMasksAndDropoutAreComputedByOwnKernels) {
    EXPECT_EQ(attention_library(stream).find("own kernels"), std::string::npos);
    attention_not_asked(stream);
    EXPECT_NE(attention_library(stream).find("own kernels at least once: cuDNN is not used for attention with masks"),
              std::string::npos);
}

/// In a line that a training prints, of GPUs that cuDNN has no attention for alone.
TEST_F(RuntimeAttention, SaysThatAnOldGpusIsComputedByOwnKernels) {
    attention_not_asked(stream);
    EXPECT_EQ(cudnn_absence(stream), "");
    fake_runtime::reset(2, 75);
    const std::unique_ptr<CudaDevice> old = open_cuda_device(0);
    state = StreamState();
    stream.device = old.get();
    attention_not_asked(stream);
    EXPECT_EQ(cudnn_absence(stream),
              "own kernels compute attention: cuDNN: its attention needs compute capability 8.0, but this GPU has 7.5");
    EXPECT_NE(attention_library(stream).find("own kernels at least once: its attention needs"), std::string::npos);
    stream.device = device.get();
}

/// In parts of two sizes, of which each has a choice of its own.
TEST_F(RuntimeAttention, TuningKeepsTheFastestPlanThatKeepsToTheScratch) {
    auto& executed = headroom_cudnn_frontend::executed();
    Trial t = trial({3, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    const std::size_t budget = (std::size_t{64} << 10) + 2 * 64 * (2 * 128 + 4);
    run(t, {.scratch_budget = budget});
    EXPECT_EQ(executed.last, 0);  // cuDNN's own choice
    const ComputeOptions options{.tune = true, .scratch_budget = budget};
    run(t, options);
    EXPECT_EQ(executed.last, 3);
    expect_matches(t, 0, test::Weights::rounded_also_per_head);
    EXPECT_EQ(state.get<SdpaChoices>().size(), 3);  // forward, two batches, one
    const std::int64_t waits = device->host_waits();
    executed.count = 0;
    run(t, options);
    EXPECT_EQ(executed.count, 3);
    EXPECT_EQ(device->host_waits(), waits + 1);  // the test's
}

/// Trials write what the call overwrites. A gradient that is added to is no call of cuDNN's.
TEST_F(RuntimeAttention, ATunedCallHasTheBitsOfAnUntunedOne) {
    const auto outputs = [](Trial& t) {
        std::vector<std::vector<double>> all;
        for (TestArray Trial::*const array :
             {&Trial::q, &Trial::k, &Trial::v, &Trial::o, &Trial::lse, &Trial::dy, &Trial::dq, &Trial::dk, &Trial::dv})
            all.push_back((t.*array).values());
        return all;
    };
    for (const Case& c : kCases) {
        const auto computed = [&](bool tune) {
            state = StreamState();
            random.seed(3);
            Trial t = trial(c, Dtype::bf16);
            run(t, {.tune = tune});
            EXPECT_EQ(headroom_cudnn_frontend::executed().last, tune ? 3 : 0);
            return outputs(t);
        };
        const auto untuned = computed(false);
        EXPECT_EQ(computed(true), untuned) << text(c, Dtype::bf16);
    }
    Trial t = trial(kCases[0], Dtype::bf16);
    run(t, {.tune = true});
    const auto before = outputs(t);
    for (float AttentionGradient::*const beta :
         {&AttentionGradient::beta_q, &AttentionGradient::beta_k, &AttentionGradient::beta_v}) {
        state = StreamState();
        AttentionGradient gradient = t.gradient();
        gradient.*beta = 1;
        EXPECT_FALSE(attention_gradient_by_library(stream, *plan_sdpa(gradient), gradient, nullptr));
        device->synchronize();
        EXPECT_EQ(outputs(t), before);
    }
}

TEST_F(RuntimeAttention, ChoicesOfAnEarlierRunAreTakenWithoutTrying) {
    auto& executed = headroom_cudnn_frontend::executed();
    const std::string path = ::testing::TempDir() + "attention_choices.txt";
    std::filesystem::remove(path);
    Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    run(t, {.tune = true});
    stream.state->get<SdpaChoices>().append(path);

    state = StreamState();
    stream.state->get<SdpaChoices>().load(path);
    EXPECT_EQ(state.get<SdpaChoices>().size(), 2);
    executed = {};
    run(t);
    EXPECT_EQ(executed.last, 3);
    EXPECT_EQ(executed.count, 2);
    EXPECT_EQ(executed.builds, 4);  // of each attention the plan that cuDNN prefers, and the fastest

    std::string text;
    std::getline(std::ifstream(path), text, '\0');
    const auto run_with = [&](const std::string& old, const std::string& other) {
        std::string changed = text;
        for (std::size_t at = 0; (at = changed.find(old)) != std::string::npos;) changed.replace(at, old.size(), other);
        std::ofstream(path) << changed;
        state = StreamState();
        stream.state->get<SdpaChoices>().load(path);
        executed = {};
        run(t);
        EXPECT_EQ(executed.last, 0) << other;
    };
    run_with("fake plan 3", "no plan");
    EXPECT_EQ(executed.builds, 2);
    run_with("fake plan 3", "fake plan 1");  // takes too much scratch
    run_with(device->properties().name, "another GPU");
}

TEST_F(RuntimeAttention, ThatWasComputedKeepsItsPlan) {
    const std::string path = ::testing::TempDir() + "late_attention_choices.txt";
    std::filesystem::remove(path);
    Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    run(t, {.tune = true});
    stream.state->get<SdpaChoices>().append(path);
    state = StreamState();
    run(t);
    stream.state->get<SdpaChoices>().load(path);
    run(t);
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 0);
    run(t, {.tune = true});
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 3);
}

/// cuDNN's own choice stays, and is not kept as the fastest.
TEST_F(RuntimeAttention, TuningThatFailsChangesNothing) {
    Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    const Sdpa sdpa = *plan_sdpa(t.forward());
    std::vector<std::byte> scratch(sdpa.scratch());
    stream.compute.tune = true;
    headroom_cudnn_frontend::fail_always(true);
    EXPECT_THROW(attention_by_library(stream, sdpa, t.forward(), scratch.data()), DeviceError);
    headroom_cudnn_frontend::fail_always(false);
    EXPECT_EQ(state.get<SdpaChoices>().size(), 0);
    ASSERT_TRUE(attention_by_library(stream, sdpa, t.forward(), scratch.data()));
    device->synchronize();
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 0);
}

TEST_F(RuntimeAttention, TuningThatCannotBeTimedChangesNothing) {
    Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    const Sdpa sdpa = *plan_sdpa(t.forward());
    std::vector<std::byte> scratch(sdpa.scratch());
    Cudnn cudnn(open_cudnn({.capability = 90, .stream = device->native(), .description = {}}, {HEADROOM_FAKE_CUDNN}));
    ASSERT_EQ(cudnn.plan(sdpa).refusal, "");
    const WorkTimer timer = [](int, const auto&) -> std::vector<float> { throw DeviceError("no events"); };
    EXPECT_THROW(cudnn.choose_fastest(sdpa, data_of(t.forward()), scratch.data(), timer, [] { return true; }),
                 DeviceError);
    cudnn.run(sdpa, data_of(t.forward()), scratch.data());
    device->synchronize();
    EXPECT_EQ(headroom_cudnn_frontend::executed().last, 0);
}

TEST_F(RuntimeAttention, DamagedChoicesAreRefused) {
    const std::string path = ::testing::TempDir() + "damaged_attention_choices.txt";
    for (const char* line : {"attention ", "attention cuDNN 9 | 1 2 3", "attention cuDNN 9 | 1 2 3 | "}) {
        std::ofstream(path) << "a line of products\n" << line << "\n";
        EXPECT_THROW(stream.state->get<SdpaChoices>().load(path), FileError) << line;
    }
    EXPECT_THROW(stream.state->get<SdpaChoices>().load(path + ".missing"), FileError);
    EXPECT_THROW(stream.state->get<SdpaChoices>().append(::testing::TempDir() + "missing/file"), FileError);
    EXPECT_EQ(state.get<SdpaChoices>().size(), 0);
}

/// That the library of these tests has the rules of NVIDIA's frontend, and of its kernels, which check nothing.
TEST_F(RuntimeAttention, WhatCudnnCannotReadIsRefused) {
    Cudnn cudnn(open_cudnn({.capability = 90, .stream = device->native()}, {HEADROOM_FAKE_CUDNN}));
    Trial t = trial({1, 64, 64, 2, 1, 16, true}, Dtype::bf16);
    const Sdpa forward = *plan_sdpa(t.forward()), gradient = *plan_sdpa(t.gradient());
    const auto refusal = [&](const Sdpa& of, auto change) {
        Sdpa x = of;
        change(x);
        return cudnn.plan(x).refusal;
    };
    for (const Sdpa& of : {forward, gradient}) {
        EXPECT_EQ(refusal(of, [](Sdpa&) {}), "");
        EXPECT_EQ(refusal(of, [](Sdpa& x) { x.width = 12; }), "hidden_dim should be multiple of 8");
        EXPECT_EQ(refusal(of, [](Sdpa& x) { x.width = 136; }), "hidden_dim should be less than or equal to 128");
        EXPECT_EQ(refusal(of, [](Sdpa& x) { x.heads = 3, x.key_heads = 2; }),
                  "query heads are no multiple of key heads");
        for (const auto strides : {&Sdpa::q, &Sdpa::k, &Sdpa::v, &Sdpa::o})
            EXPECT_EQ(refusal(of, [=](Sdpa& x) { (x.*strides)[1] += 4; }),
                      "a stride is not a multiple of the tensor's 16-byte alignment");
    }
    std::vector<std::byte> scratch(std::max(forward.scratch(), gradient.scratch()));
    const auto runs = [&](const Sdpa& x, SdpaData data, std::byte* SdpaData::*which, std::byte* instead) {
        data.*which = instead;
        try {
            cudnn.run(x, data, scratch.data());
        } catch (const DeviceError&) {
            return false;
        }
        device->synchronize();
        return true;
    };
    const SdpaData there = data_of(t.forward()), back = data_of(t.gradient(), 0, 0);
    EXPECT_TRUE(runs(forward, there, &SdpaData::q, there.q));
    EXPECT_TRUE(runs(gradient, back, &SdpaData::q, back.q));
    EXPECT_FALSE(runs(forward, there, &SdpaData::q, there.q + 8));
    EXPECT_FALSE(runs(gradient, back, &SdpaData::dv, back.dv + 8));
    EXPECT_FALSE(runs(forward, there, &SdpaData::o, there.q));  // read while others are written
    EXPECT_FALSE(runs(gradient, back, &SdpaData::dq, back.dy));
    EXPECT_FALSE(runs(gradient, back, &SdpaData::dk, back.dv));
}

TEST_F(RuntimeAttention, StatisticsAreWrittenOnlyWhereTheyAreWanted) {
    Trial t = trial({1, 64, 64, 1, 1, 16, true}, Dtype::bf16);
    Attention forward = t.forward();
    forward.lse.data = nullptr;
    std::vector<std::byte> scratch(plan_sdpa(forward)->scratch());
    ASSERT_TRUE(attention_by_library(stream, *plan_sdpa(forward), forward, scratch.data()));
    device->synchronize();
    EXPECT_FALSE(std::isnan(t.o.get(0)));
    EXPECT_TRUE(std::isnan(t.lse.get(0)));
}

}  // namespace runtime_attention_test
}  // namespace headroom::kernels
