#pragma once
// Two-dimensional convolution and its gradients, with stride, padding, dilation and groups, down to depthwise. For one
// axis use a height of 1. A transposed convolution is the `data` pass with x and y swapped; its gradients are the other
// two passes.
//
//     Convolution c{.x = x, .weight = w, .y = y, .steps = {.padding = 1}, .bias = b};  // y = x * w + b
//     const ConvolutionPlan plan(stream, c);
//     std::byte* scratch = allocate(plan.scratch());                               // before the launch
//     launch(stream, [&](auto& s) { plan.run(s, scratch); });
//     ConvolutionPlan(stream, {.x = x, .weight = dw, .y = dy, .steps = c.steps, .pass = ConvolutionPass::weight});
//     SumPlan(stream, dy, 1.0, db, 0);                                             // db [1, o, 1, 1]: the bias's
//
// Takes any strides. Fast for channels-last images ([n, h, w, c] in memory, with shape [n, c, h, w]) with weights in
// the same order, and for row-major ones.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/convolution/internal/implicit.hpp>
#include <headroom/kernels/convolution/internal/problem.hpp>
#include <headroom/kernels/int_pair.hpp>
#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

class LibraryConvolution;

/// Number of kernel positions along one axis: (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded
/// down; below 1 if the kernel is larger than the padded input. stride >= 1.
constexpr std::int64_t convolved_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                      std::int64_t dilation) {
    const std::int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

/// How a kernel steps over images. Pairs are (height, width).
struct ConvolutionSteps {
    IntPair stride = 1, padding = 0, dilation = 1;
    std::int64_t groups = 1;

    bool operator==(const ConvolutionSteps&) const = default;
};

/// The shape of y. Errors: ShapeError if x and weight don't have four axes or don't fit together, for a kernel larger
/// than the padded x, groups that don't divide the channels, strides or dilations below 1, or padding below 0.
Shape convolved_shape(const Shape& x, const Shape& weight, const ConvolutionSteps& steps);

/// x [n, groups i, h, w], weight [groups o, i, kh, kw], y [n, groups o, oh, ow] with oh = convolved_size(h, kh, ...):
///
///     y[n, o, r, c] = sum over i, a, b of x[n, i, r stride + a dilation - padding, ...] weight[o, i, a, b]
///
/// where o runs over the channels of a group and i over its inputs; x is 0 outside. A pass writes one of the three:
///   forward  y = activation(x * weight + bias + beta y), with bias [groups o]
///   data     x = activation(sum of y weight over all uses of each x + bias + beta x), with bias [groups i]
///   weight   weight = sum of x y over all uses of each weight + beta weight
/// The written array must not overlap the arrays that are read. With beta = 0 it is not read; an empty sum is 0.
/// Dtypes: the arrays read share one of f32, bf16, f16, f64; the written one has that dtype or, for halves, f32; the
/// bias has either. Products of halves are exact and accumulated in f32.
struct Convolution {
    View x;
    View weight;
    View y;
    ConvolutionSteps steps{};
    ConvolutionPass pass = ConvolutionPass::forward;
    float beta = 0;
    View bias{};                               ///< rank 0: none
    Activation activation = Activation::none;  ///< or relu; not for the weight pass

    bool has_bias() const { return bias.rank() == 1; }
};

/// One call of a convolution. The constructor checks it and chooses the kernels.
class ConvolutionPlan {
  public:
    /// Data pointers may be null if it is not run. Errors: DtypeError for dtypes not listed above; ShapeError as
    /// `convolved_shape`, and if y has another shape.
    ConvolutionPlan(const Stream& stream, const Convolution& convolution);

    /// Bytes that `run` needs. Depends only on shapes, strides, dtypes, beta and threads; the same in a dry run. On the
    /// CPU: the weights in the kernel's order, and arrays that are packed first or rounded last.
    std::size_t scratch() const { return scratch_; }

    /// Runs on the stream that it was planned for. `scratch`: 64-byte aligned; may be null for 0 bytes. The bits
    /// repeat; with oneDNN they may depend on the number of threads. A half x with a bias or activation may be rounded
    /// twice, at strides above 1.
    void run(CpuStream& stream, std::byte* scratch) const;
    /// cuDNN, if it was found (see `convolution_library`), runs convolutions of channels-last images and weights, f32
    /// or halves, with 2^18 multiply-adds or more. A gradient of half weights is then rounded to halves before it is
    /// added or stored as f32, and gradients repeat unless `ComputeOptions::deterministic` is false. For halves, a ReLU
    /// after a bias is part of the same call if cuDNN's ReLU keeps NaN and infinity, which a trial checks once per
    /// shape while it waits for the device; otherwise the ReLU is a separate pass. Without cuDNN, an implicit matrix
    /// product on tiles runs with the same scratch (on tensor cores for halves); one channel per group needs no tiles.
    /// `scratch`: 256-byte aligned. The bits of the project's own kernels repeat and do not depend on the device: a
    /// weight gradient is split into parts by shape, which are added in order.
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    ConvolutionProblem problem_;
    LibraryConvolution* library_ = nullptr;  ///< oneDNN's; null for the project's own kernels and on a GPU
    std::optional<CudnnConvolution> cudnn_;  ///< on a GPU: the problem for cuDNN; none if it does not qualify
    ImplicitProduct product_{};              ///< on a GPU: the problem for the project's own kernels
    std::size_t scratch_ = 0;
};

/// For reports, one line without quotes: "cuDNN 9.26.0, frontend 1.32.0", with the last refusal if there was one, or
/// the reason why the project's own kernels are used.
std::string convolution_library(CudaStream& stream);

/// The convolutions planned on a rehearsed GPU that cuDNN would compute, each once. bench/convolution_plans.py lets
/// NVIDIA's library plan them without a GPU.
std::vector<std::string> rehearsed_convolutions(const DryStream& stream);

}  // namespace headroom::kernels
