#pragma once
// The description of a convolution that cuDNN gets, and which convolutions it gets. Plain C++, so that a dry run
// counts the scratch that a GPU will need, and tests need no GPU.
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

/// Shapes and options: what one of cuDNN's plans is made for. All arrays are channels-last, without gaps.
struct CudnnConvolution : ConvolutionGeometry {
    ConvolutionPass pass = ConvolutionPass::forward;
    Dtype dtype = Dtype::f32;  ///< of all arrays
    bool tf32 = false;         ///< f32 operands may be rounded to TF32
    bool any_order = false;    ///< bits need not repeat
    /// To what is there; not of the weight pass, nor where cuDNN has no plan for it: in exact f32, and of channels that
    /// are no multiple of 16 bytes.
    bool adds = false;
    bool has_bias = false;  ///< of a forward pass
    bool relu = false;      ///< behind the bias; of halves, as in f32 cuDNN's makes the largest number of infinity
    std::size_t budget = ComputeOptions().scratch_budget;

    static constexpr std::string_view kind = "convolution";
    /// Everything that a plan is made for, the budget apart.
    std::string text() const;
    /// The convolution of a text, with the default budget. Errors: Error if it is none.
    static CudnnConvolution from_text(const std::string& text);
    /// f32 operands as they are: by few of cuDNN's kernels, which add to nothing and whose data pass copies x and y.
    bool exact_f32() const { return dtype == Dtype::f32 && !tf32; }
    /// Bytes of scratch that a plan may take; with more, it is not used. What cuDNN 9.19 was seen to take for an H200,
    /// as docs/convolution_plans.md lists: copies of images whose channels it pads to 16 bytes; partial sums of a
    /// weight's gradient; of a data pass in exact f32 copies of x and y, if they fit the budget. Within the budget.
    std::size_t scratch() const;
    /// Bytes of a bias that a ReLU is tried with.
    std::size_t trial_bytes() const;
    /// Bytes of these copies of x and y.
    std::int64_t padded_copies() const;

    auto operator<=>(const CudnnConvolution&) const = default;
};

/// Empty if cuDNN is not used: as `own_kernels` say; for f64; images or weights that are not channels-last; fewer than
/// 2^18 multiply-adds (a plan for a shape takes about a second to make); a forward or data pass with another beta than
/// 0 and 1, that writes another dtype than it reads, or that adds behind cuDNN's kernel what exceeds the budget.
std::optional<CudnnConvolution> plan_cudnn(const ConvolutionProblem& problem, const ComputeOptions& options);
/// The same with the options of a GPU's stream; a dry one remembers it.
std::optional<CudnnConvolution> plan_cudnn_on(const Stream& stream, const ConvolutionProblem& problem);

/// What cuDNN would have been asked for in a rehearsal. In the dry stream's state.
struct RehearsedConvolutions {
    std::set<CudnnConvolution> asked;
};

/// Bytes of a result that is added or converted behind cuDNN's kernel: of a weight's gradient, as that has one of its
/// own dtype, whether or not this call adds; and of what `library` does not add. Or of a ReLU's trial.
std::size_t bytes_behind(const ConvolutionProblem& problem, const CudnnConvolution& library);

/// Addresses on the device; the bias is null unless cuDNN adds it.
struct CudnnConvolutionData {
    std::byte *x = nullptr, *weight = nullptr, *y = nullptr;
    const std::byte* bias = nullptr;
    std::byte* trial = nullptr;  ///< `trial_bytes`, aligned likewise

    std::byte*& written(ConvolutionPass pass) {
        return pass == ConvolutionPass::forward ? y : pass == ConvolutionPass::data ? x : weight;
    }
    /// To 16 bytes, as cuDNN needs.
    bool aligned() const;
};

using ConvolutionChoices = PlanChoices<CudnnConvolution>;

/// By cuDNN; other activations, a data pass's bias, and what `bytes_behind` are for, are the caller's. So is the ReLU
/// where `library.relu` is false afterwards: cuDNN's says nowhere what it makes of NaN. A plan's is tried, once: with a
/// bias of NaN and infinities, outside of a capture, which waits. Returns false, and does nothing, if cuDNN is missing
/// or refuses, or if data is not aligned.
bool convolution_by_library(CudaStream& stream, CudnnConvolution& library, const CudnnConvolutionData& data,
                            std::byte* scratch);

}  // namespace headroom::kernels
