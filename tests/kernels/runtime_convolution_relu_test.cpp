// Which ReLU cuDNN is given, and what its plans do with NaN and infinity.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/tests/kernels/convolution_on_runtime.hpp>

namespace headroom::kernels {
namespace runtime_convolution_relu_test {

using headroom_cudnn_frontend::Relu;
using test::ConvolutionCase;
using test::kCases;
using test::Trial;

using RuntimeConvolutionRelu = test::ConvolutionOnRuntime;

/// Behind a bias.
ConvolutionCase with_relu(ConvolutionCase of) {
    of.bias = true, of.activation = Activation::relu;
    return of;
}

/// The same numbers as where it is a pass of its own, which the caller makes.
TEST_F(RuntimeConvolutionRelu, AReluIsCudnnsWhereThatLeavesNanAndInfinity) {
    auto& executed = headroom_cudnn_frontend::executed();
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        for (const Relu relu : {Relu::exact, Relu::hides_nan, Relu::saturates}) {
            SCOPED_TRACE(fmt::format("{}, {}", name(dtype), static_cast<int>(relu)));
            state = StreamState();
            executed = {};
            headroom_cudnn_frontend::give_relu(0, relu);
            Trial t = trial(with_relu(kCases[0]), dtype);
            for (int twice = 0; twice < 2; ++twice) {
                EXPECT_TRUE(run(with_relu(kCases[0]), t));
                EXPECT_EQ(library->relu, relu == Relu::exact);
                EXPECT_EQ(executed.count, 2 + twice);  // tried once
            }
            test::TestArray& y = t.out[0].array;
            std::int64_t below = 0;
            for (std::int64_t i = 0; i < y.numel(); ++i) {
                below += y.get(i) < 0;
                y.set(i, std::max(y.get(i), 0.0));
            }
            EXPECT_EQ(below == 0, relu == Relu::exact);
            expect_right(t);
            EXPECT_EQ(convolution_library(stream).find("would hide NaN or infinity") == std::string::npos,
                      relu == Relu::exact);
        }
    }
}

TEST_F(RuntimeConvolutionRelu, AReluIsNotCudnnsWhereItsTrialWouldNotDo) {
    const auto asked = [&](ConvolutionCase of, Dtype dtype, const ComputeOptions& options = {}) {
        Trial t = trial(of, dtype);
        const ConvolutionProblem p = problem_of(of, t);
        const CudnnConvolution c = *plan_cudnn(p, options);
        EXPECT_EQ(bytes_behind(p, c), c.trial_bytes());
        return c.relu;
    };
    ConvolutionCase of = with_relu(kCases[0]);
    EXPECT_TRUE(asked(of, Dtype::bf16));
    EXPECT_TRUE(asked(of, Dtype::bf16, {.scratch_budget = 256}));
    EXPECT_FALSE(asked(of, Dtype::bf16, {.scratch_budget = 255}));
    EXPECT_FALSE(asked(of, Dtype::f32));
    EXPECT_FALSE(asked(of, Dtype::f32, {.tf32 = true}));
    of.beta = 1;
    EXPECT_FALSE(asked(of, Dtype::bf16));
    of.beta = 0, of.bias = false;
    EXPECT_FALSE(asked(of, Dtype::bf16));
    of.bias = true, of.pass = ConvolutionPass::data;
    EXPECT_FALSE(asked(of, Dtype::bf16));
}

/// Of the plan that runs: each has its own.
TEST_F(RuntimeConvolutionRelu, AReluIsTriedAnewForAnotherPlan) {
    headroom_cudnn_frontend::give_relu(0, Relu::exact);
    const ConvolutionCase of = with_relu(kCases[0]);
    Trial t = trial(of, Dtype::bf16);
    EXPECT_TRUE(run(of, t));
    EXPECT_TRUE(library->relu);
    EXPECT_TRUE(run(of, t, {.tune = true}));  // finds plan 3, which hides NaN
    EXPECT_FALSE(library->relu);
}

/// There is no waiting for a trial.
TEST_F(RuntimeConvolutionRelu, AReluIsNotTriedInACapture) {
    headroom_cudnn_frontend::give_relu(0, Relu::exact);
    const ConvolutionCase of = with_relu(kCases[0]);
    Trial t = trial(of, Dtype::bf16);
    const ConvolutionProblem p = problem_of(of, t);
    const CudnnConvolution planned = *plan_cudnn(p, {});
    std::vector<std::byte> scratch(planned.scratch()), memory(planned.trial_bytes());
    const auto fused = [&] {
        CudnnConvolution c = planned;
        const CudnnConvolutionData data{
            .x = p.x.data, .weight = p.weight.data, .y = p.y.data, .bias = p.bias, .trial = memory.data()};
        EXPECT_TRUE(convolution_by_library(stream, c, data, scratch.data()));
        return c.relu;
    };
    const auto captured = [&] {
        device->begin_capture();
        const bool result = fused();
        device->end_capture();
        return result;
    };
    EXPECT_FALSE(captured());
    EXPECT_TRUE(fused());
    EXPECT_TRUE(captured());
    device->synchronize();  // while there is scratch
}

}  // namespace runtime_convolution_relu_test
}  // namespace headroom::kernels
