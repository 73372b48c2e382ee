#pragma once
// The description of a convolution that cuDNN gets, and which convolutions it gets. Plain C++, so that a dry run counts
// the scratch that a GPU will need, and tests need no GPU. Internal to kernels/convolution.
//
//     const std::optional<CudnnConvolution> library = plan_cudnn(problem, options);
//     if (library && convolution_by_library(stream, *library, data, scratch)) return;
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/kernels/compute_options.hpp>
#include <headroom/kernels/convolution/problem.hpp>
#include <headroom/kernels/device/plan_choices.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Shapes and options: what one of cuDNN's plans is made for. All arrays are channels-last, without gaps.
struct CudnnConvolution {
    ConvolutionPass pass = ConvolutionPass::forward;
    Dtype dtype = Dtype::f32;  ///< of all arrays
    bool tf32 = false;         ///< f32 operands may be rounded to TF32
    bool any_order = false;    ///< bits need not repeat
    bool adds = false;         ///< to what is there; not of the weight pass
    bool has_bias = false;     ///< of a forward pass
    std::int64_t images = 0, groups = 1;
    std::int64_t inputs = 0, outputs = 0;  ///< channels of one group
    ConvolutionAxis h{}, w{};
    std::size_t budget = ComputeOptions().scratch_budget;

    static constexpr std::string_view kind = "convolution";
    /// Everything that a plan is made for.
    std::string text() const;
    /// Bytes of scratch that a plan may take; with more, it is not used: what cuDNN 9.19 takes on an H200 for images
    /// whose channels it pads to 16 bytes (copies of them), and for four sets of weights in f32; within the budget.
    std::size_t scratch() const;
    /// Bytes of a weight's gradient that is added or converted behind cuDNN's kernel: that has one of its own dtype.
    std::size_t weight_bytes() const;

    auto operator<=>(const CudnnConvolution&) const = default;
};

/// Empty if cuDNN is not used: as `own_kernels` say; for f64; images or weights that are not channels-last; fewer than
/// 2^18 multiply-adds (a plan for a shape takes about a second to make); a forward or data pass with another beta than
/// 0 and 1, or that writes another dtype than it reads; a data pass with a bias or activation.
std::optional<CudnnConvolution> plan_cudnn(const ConvolutionProblem& problem, const ComputeOptions& options);

/// Bytes of scratch of a call; the same without cuDNN, so that memory does not depend on what is installed.
std::size_t cudnn_scratch(const std::optional<CudnnConvolution>& library);

/// Addresses on the device; the bias is null without one.
struct CudnnConvolutionData {
    std::byte *x = nullptr, *weight = nullptr, *y = nullptr;
    const std::byte* bias = nullptr;
};

using ConvolutionChoices = PlanChoices<CudnnConvolution>;

/// By cuDNN; activations, and what `weight_bytes` are for, are the caller's. Returns false, and does nothing, if cuDNN
/// is missing or refuses, or if addresses are no multiples of 16 bytes, as it needs.
bool convolution_by_library(CudaStream& stream, const CudnnConvolution& library, const CudnnConvolutionData& data,
                            std::byte* scratch);

}  // namespace headroom::kernels
