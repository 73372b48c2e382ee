// Convolutions by cuDNN, and what is done behind them: needs a GPU, and cuDNN with its frontend when the project is
// built.
#include <cmath>
#include <iostream>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/convolution_trial.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace convolution_library_cuda_test {

using namespace test;

class ConvolutionLibraryCuda : public CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (!gpu) return;
        const std::string library = convolution_library(gpu->stream);
        std::cout << library << "\n";
        if (library.find("cuDNN") != 0) GTEST_SKIP() << library;
    }
};

const ConvolutionCase kCases[] = {
    {.images = 2, .inputs = 24, .outputs = 32, .h = {10, 3, 1, 1}, .w = {11, 3, 1, 1}},
    {.images = 2, .inputs = 16, .outputs = 48, .h = {17, 3, 2, 1, 2}, .w = {23, 5, 1, 2}},
    {.images = 2, .groups = 4, .inputs = 16, .outputs = 24, .h = {9, 3, 1, 1}, .w = {9, 3}},
    {.images = 2, .inputs = 3, .outputs = 20, .h = {30, 3, 1, 1}, .w = {33, 5, 1, 1}},
};

/// Gradients of half weights are rounded to halves before they are added or widened.
void allow_rounding(Output& y, Dtype dtype, float beta) {
    for (std::size_t i = 0; i < y.error.size(); ++i) {
        const double before = beta == 0 ? 0 : y.array.get(static_cast<std::int64_t>(i));
        y.error[i] += epsilon(dtype) * (std::abs(y.value[i] - before) + y.error[i]);
    }
}

TEST_F(ConvolutionLibraryCuda, MatchesF64) {
    for (ConvolutionCase of : kCases) {
        for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::data, ConvolutionPass::weight}) {
            for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
                for (const float beta : {0.0f, 1.0f}) {
                    SCOPED_TRACE(std::to_string(of.inputs) + " inputs, pass " + std::to_string(static_cast<int>(pass)) +
                                 ", " + std::string(name(dtype)));
                    const bool weight = pass == ConvolutionPass::weight;
                    of.pass = pass, of.beta = beta, of.bias = !weight;
                    of.activation = of.bias ? Activation::relu : Activation::none;
                    of.to_f32 = weight && beta == 1;
                    Random random(3);
                    Trial trial = convolution_trial({.dtype = dtype}, random, of);
                    if (weight && is_half(dtype)) allow_rounding(trial.out[0], dtype, beta);
                    Device device(Place::gpu);
                    expect_values(device, trial);
                }
            }
        }
    }
}

}  // namespace convolution_library_cuda_test
}  // namespace headroom::kernels
