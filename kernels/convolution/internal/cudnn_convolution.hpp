#pragma once
// The description of a convolution for cuDNN, and the rules for which convolutions qualify. Plain C++, so that a dry
// run knows the scratch that a GPU will need, and tests need no GPU.
//
//     const std::optional<CudnnConvolution> library = plan_cudnn(problem, options);
//     if (library && convolution_by_library(stream, *library, data, scratch)) return;
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <headroom/kernels/compute_options.hpp>
#include <headroom/kernels/convolution/internal/problem.hpp>
#include <headroom/kernels/device/plan_choices.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Shapes and options that a cuDNN plan is made for. All arrays are channels-last, without gaps.
struct CudnnConvolution : ConvolutionGeometry {
    ConvolutionPass pass = ConvolutionPass::forward;
    Dtype dtype = Dtype::f32;  ///< of all arrays
    bool tf32 = false;         ///< f32 operands may be rounded to TF32
    bool any_order = false;    ///< bits need not repeat
    /// Adds to the present result. Not for the weight pass, nor where cuDNN has no plan for it: in exact f32, or if
    /// channels are not a multiple of 16 bytes.
    bool adds = false;
    bool has_bias = false;  ///< in a forward pass
    /// After the bias; only for halves, because in f32 cuDNN's ReLU turns infinity into the largest number.
    bool relu = false;
    std::size_t budget = ComputeOptions().scratch_budget;

    static constexpr std::string_view kind = "convolution";
    /// Everything that a plan depends on, except the budget.
    std::string text() const;
    /// Parses a text, with the default budget. Errors: Error for an invalid text.
    static CudnnConvolution from_text(const std::string& text);
    /// f32 operands are not rounded: few of cuDNN's kernels support that. They can't add to a result, and their data
    /// pass copies x and y.
    bool exact_f32() const { return dtype == Dtype::f32 && !tf32; }
    /// Bytes of scratch that a plan may take; plans that take more are not used. Covers what cuDNN 9.19 was seen to
    /// take for an H200 (docs/convolution_plans.md), within the budget: copies of images whose channels it pads to 16
    /// bytes; partial sums of a weight's gradient; for a data pass in exact f32 copies of x and y, if they fit the
    /// budget.
    std::size_t scratch() const;
    /// Bytes of the bias for trying a ReLU.
    std::size_t trial_bytes() const;
    /// Bytes of the padded copies of x and y.
    std::int64_t padded_copies() const;

    auto operator<=>(const CudnnConvolution&) const = default;
};

/// Empty if cuDNN is not used: with `own_kernels`; for f64; if images or weights are not channels-last; for fewer than
/// 2^18 multiply-adds (planning a shape takes about a second); for a forward or data pass with a beta other than 0 and
/// 1, with different dtypes for input and output, or with an addition after cuDNN's kernel that exceeds the budget.
std::optional<CudnnConvolution> plan_cudnn(const ConvolutionProblem& problem, const ComputeOptions& options);
/// The same with the options of a GPU's stream; a dry stream records it.
std::optional<CudnnConvolution> plan_cudnn_on(const Stream& stream, const ConvolutionProblem& problem);

/// The convolutions that cuDNN would compute in a rehearsal. Part of the dry stream's state.
struct RehearsedConvolutions {
    std::set<CudnnConvolution> asked;
};

/// Bytes of a result that is added or converted after cuDNN's kernel: a weight's gradient in its own dtype, whether or
/// not this call adds; and what `library` does not add itself. Or bytes of a ReLU's trial.
std::size_t bytes_behind(const ConvolutionProblem& problem, const CudnnConvolution& library);

/// Device addresses; the bias is null unless cuDNN adds it.
struct CudnnConvolutionData {
    std::byte *x = nullptr, *weight = nullptr, *y = nullptr;
    const std::byte* bias = nullptr;
    std::byte* trial = nullptr;  ///< `trial_bytes`, with the same alignment

    std::byte*& written(ConvolutionPass pass) {
        return pass == ConvolutionPass::forward ? y : pass == ConvolutionPass::data ? x : weight;
    }
    /// True if all are aligned to 16 bytes, as cuDNN requires.
    bool aligned() const;
};

using ConvolutionChoices = PlanChoices<CudnnConvolution>;

/// Computes with cuDNN. The caller handles other activations, a data pass's bias, and the additions of `bytes_behind`.
/// It must also apply the ReLU if `library.relu` is false afterwards: cuDNN does not document how its ReLU treats NaN,
/// so each plan's ReLU is tried once, outside a capture, with a bias of NaN and infinities, which waits for the device.
/// Returns false, and does nothing, if cuDNN is missing or refuses, or if data is not aligned.
bool convolution_by_library(CudaStream& stream, CudnnConvolution& library, const CudnnConvolutionData& data,
                            std::byte* scratch);

}  // namespace headroom::kernels
