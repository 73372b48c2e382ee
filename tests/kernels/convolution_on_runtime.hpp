#pragma once
// A convolution by cuDNN, over stand-ins for its frontend, which computes graphs as they are described, and for CUDA's
// runtime.
//
//     test::Trial t = trial(of, Dtype::bf16);
//     EXPECT_TRUE(run(of, t, {.tune = true}));
//     expect_right(t);
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/kernels/convolution_trial.hpp>
#include <headroom/tests/kernels/fake_cudnn/cudnn_frontend.h>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels::test {

class ConvolutionOnRuntime : public testing::Test {
  protected:
    ConvolutionOnRuntime() {
        fake_runtime::reset(2);
        open_cudnn({.capability = 90, .stream = nullptr, .description = "{}"}, {HEADROOM_FAKE_CUDNN});
        device = open_cuda_device(0);
        stream.device = device.get();
    }
    ~ConvolutionOnRuntime() override {
        headroom_cudnn_frontend::take_more_scratch(0);
        headroom_cudnn_frontend::fail_always(false);
        for (const int plan : {0, 1, 3}) headroom_cudnn_frontend::give_notes(plan, {});
        for (const int plan : {0, 3})
            headroom_cudnn_frontend::give_relu(plan, headroom_cudnn_frontend::Relu::hides_nan);
        headroom_cudnn_frontend::take_time_to_build({});
        device->synchronize();
        EXPECT_EQ(fake_runtime::problem(), "");
    }
    Trial trial(const ConvolutionCase& of, Dtype dtype) { return convolution_trial({.dtype = dtype}, random, of); }
    static Convolution convolution_in(const ConvolutionCase& of, Trial& t) {
        Views in;
        for (TestArray& x : t.in) in.push_back(x.view());
        return convolution_of(of, in, {t.out[0].array.view()});
    }
    static ConvolutionProblem problem_of(const ConvolutionCase& of, Trial& t) { return reduce(convolution_in(of, t)); }
    /// With as much scratch as was reckoned with; false if it is refused.
    bool run(const ConvolutionCase& of, Trial& t, const ComputeOptions& options = {}) {
        const ConvolutionProblem p = problem_of(of, t);
        library = plan_cudnn(p, options);
        if (!library) throw std::logic_error("cuDNN would not be asked");
        std::vector<std::byte> scratch(library->scratch() + 64, std::byte{0xcd}), trial(library->trial_bytes());
        stream.compute = options;
        const bool taken = convolution_by_library(
            stream, *library,
            {.x = p.x.data, .weight = p.weight.data, .y = p.y.data, .bias = p.bias, .trial = trial.data()},
            scratch.data());
        device->synchronize();
        for (std::size_t i = library->scratch(); i < scratch.size(); ++i) EXPECT_EQ(scratch[i], std::byte{0xcd});
        return taken;
    }
    static void expect_right(Trial& t) {
        Output& y = t.out[0];
        for (std::size_t i = 0; i < y.value.size(); ++i) {
            const double rounding = epsilon(y.array.view().dtype) * std::abs(y.value[i]);
            ASSERT_NEAR(y.array.get(static_cast<std::int64_t>(i)), y.value[i], y.error[i] + rounding) << i;
        }
    }

    double now = 0;  ///< a clock of the test's, in seconds
    std::mt19937_64 random{3};
    std::optional<CudnnConvolution> library;  ///< of the last run, and what was done of it
    StreamState state;
    std::unique_ptr<CudaDevice> device;
    CudaStream stream{.threads = 1, .state = &state};
};

/// Of more than 2^18 multiply-adds: plain; strided and unlike along the axes; groups; few channels.
inline const ConvolutionCase kCases[] = {
    {.inputs = 16, .outputs = 24, .h = {8, 3, 1, 1}, .w = {10, 3, 1, 1}},
    {.inputs = 16, .outputs = 24, .h = {13, 3, 2, 1, 2}, .w = {11, 5, 1, 2}},
    {.images = 2, .groups = 4, .inputs = 8, .outputs = 8, .h = {9, 3, 1, 1}, .w = {9, 3}},
    {.inputs = 3, .outputs = 20, .h = {20, 3, 1, 1}, .w = {18, 5, 1, 1}},
};

}  // namespace headroom::kernels::test
