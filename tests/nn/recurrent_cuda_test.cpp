// Recurrent layers on a GPU.
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/tests/simt/gpu/emulated_gemm.hpp>

namespace headroom::nn {
namespace recurrent_cuda_test {

/// The library adds it with the product of a step: a bias of another dtype than the product's would be a pass of its
/// own in each.
template <class Net>
void expect_no_pass_for_biases(std::optional<Dtype> half) {
    SCOPED_TRACE(half ? kernels::name(*half) : "f32");
    constexpr std::int64_t time = 9;
    Context context = Context::cuda();
    Parameters parameters(context);
    const Net net(parameters, {.in = 8, .width = 16, .bidirectional = true, .checkpoint = kSqrtOfTime});
    int fused = 0, left = 0;
    std::get<CudaStream>(context.stream()).state->get<kernels::EmulatedBlas>().takes = [&](const kernels::Gemm& gemm) {
        fused += gemm.bias, left += gemm.bias_remains;
        return true;
    };
    Autocast autocast(context, half);
    backward(sum(net(randn(context, {time, 4, 8})).output));
    EXPECT_GE(fused, 2 * 2 * time);  // of both directions, forward and where backward runs them again
    EXPECT_EQ(left, 0);
}

TEST(RecurrentCuda, BiasesCostNoPassInAStep) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "cuBLASLt tells nobody what it was asked";
    for (const auto half : {std::optional<Dtype>(), std::optional(Dtype::bf16), std::optional(Dtype::f16)}) {
        expect_no_pass_for_biases<Lstm>(half);
        expect_no_pass_for_biases<Gru>(half);
    }
}

}  // namespace recurrent_cuda_test
}  // namespace headroom::nn
