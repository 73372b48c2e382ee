// What cuDNN is told of an attention, by a stand-in for its frontend that computes the graph as it is described.
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/kernels/attention_trial.hpp>
#include <headroom/tests/kernels/fake_cudnn/cudnn_frontend.h>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {
namespace {

using test::TestArray;
using Case = test::AttentionCase;
using Trial = test::AttentionTrial;

class RuntimeAttention : public testing::Test {
  protected:
    RuntimeAttention() {
        fake_runtime::reset(2);
        Cudnn({.capability = 90, .stream = nullptr, .description = "{}"}, {HEADROOM_FAKE_CUDNN});  // opened for all
        device = open_cuda_device(0);
        stream.device = device.get();
    }
    ~RuntimeAttention() override {
        headroom_cudnn_frontend::take_more_scratch(0);
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

}  // namespace
}  // namespace headroom::kernels
