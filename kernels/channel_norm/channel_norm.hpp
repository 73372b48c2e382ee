#pragma once
// Normalisation of images by channel statistics, over the batch (Ioffe and Szegedy 2015, arXiv:1502.03167) or over
// groups of channels of each image (Wu and He 2018, arXiv:1803.08494; one channel per group: Ulyanov et al. 2016,
// arXiv:1607.08022). Weight and bias per channel, a residual add and a ReLU follow. Also the gradients. To normalise
// over the last axis use layer_norm.
//
//     ChannelMomentsPlan(stream, x, mean, variance);                       // x [8, 64, 56, 56], mean, variance [64]
//     channel_norm(stream, x, {.mean = mean, .variance = variance, .weight = &weight, .relu = true}, nullptr, y);
//     ChannelNormGradientPlan(stream, {.x = &x, .dy = dy}, norm, {.x = &dx, .weight = {&dweight, 1}});
//
// x is [N, C, ...]. The shape of mean and variance determines which elements share statistics: [C], a channel over the
// batch; [N, groups], a group of adjacent channels of an image. Any floating dtypes and strides. Fast if channels are
// adjacent in memory (channels-last), on the CPU also if the elements of an image are. f64 x is computed in f64,
// everything else in f32. Computing the statistics reads each element of x from memory once. A block's statistics take
// two passes in the cache (on a GPU Welford's recurrence), and blocks are combined in an order fixed by shapes and
// strides.
#include <cstddef>

#include <headroom/kernels/channel_norm/internal/columns.hpp>
#include <headroom/kernels/gradient_target.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// mean and variance (over n, not n - 1) of x; both contiguous, in the dtype that x is computed in.
class ChannelMomentsPlan {
  public:
    ChannelMomentsPlan(const Stream& stream, const View& x, const View& mean, const View& variance);

    /// Bytes: count, mean and sum of squares for each part of a column.
    std::size_t scratch() const;
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View x_, mean_, variance_;
    ColumnParts parts_;
};

/// The common arguments of forward and gradient. Views behind pointers must stay alive until the call.
struct ChannelNorm {
    View mean, variance;  ///< [C] or [N, groups]; the latter contiguous
    double epsilon = 1e-5;
    const View* weight = nullptr;  ///< [C]; null: 1
    const View* bias = nullptr;    ///< [C]; null: 0
    bool relu = false;
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias + residual; with relu max(y, 0), where NaN stays NaN.
/// `residual` may be null (0). y may be x or the residual.
void channel_norm(CpuStream& stream, const View& x, const ChannelNorm& norm, const View* residual, const View& y);
void channel_norm(CudaStream& stream, const View& x, const ChannelNorm& norm, const View* residual, const View& y);

struct ChannelNormInputs {
    const View* x = nullptr;  ///< may be null if the statistics are constant and the weight's gradient is not wanted
    View dy;
    /// With relu: the result, whose sign is the mask. Null: the mask is recomputed from x, which requires that there is
    /// no residual.
    const View* y = nullptr;
    bool constant = false;  ///< mean and variance do not depend on x
};

/// The residual's gradient is the masked dy.
struct ChannelNormGradients {
    GradientTarget x{}, weight{}, bias{}, residual{};
};

/// With g = the masked dy and h = (x - mean) * rstd: dweight = sum(g * h) and dbias = sum(g) per channel, and dx = rstd
/// * (g * weight - mean(g * weight) - h * mean(g * weight * h)), with means over the elements that share statistics;
/// for constant statistics dx = rstd * g * weight. One of dx and dresidual may be dy's memory (beta 0).
class ChannelNormGradientPlan {
  public:
    ChannelNormGradientPlan(const Stream& stream, const ChannelNormInputs& in, const ChannelNorm& norm,
                            const ChannelNormGradients& to);

    /// Bytes: sums of g and of g * h for each part of a column, and two numbers for each mean.
    std::size_t scratch() const;
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    bool wants_sums() const { return !in_.constant || to_.weight || to_.bias; }

    ChannelNormInputs in_;
    ChannelNorm norm_;
    ChannelNormGradients to_;
    ColumnParts parts_;
};

/// Updates running statistics with a batch: running = (1 - momentum) * running + momentum * batch. The batch's variance
/// is `correction` times the variance over n. `batches` (i64, one element) counts the updates; a negative momentum
/// means 1 / batches, the average over all. Nothing changes unless mean, variance and `loss` (one floating element;
/// null: not checked) are all finite. All [C]; the running ones are contiguous.
struct RunningStatistics {
    View mean, variance, batches;
    double momentum = 0.1;
};
/// A number known to the host, or one f64 in the stream's memory.
struct Correction {
    Correction(double number) : factor(number) {}
    Correction(const View& number) : at(number.as<double>()) {}
    double factor = 1;
    const double* at = nullptr;
};
void update_running(CpuStream& stream, const View& mean, const View& variance, const Correction& correction,
                    const View* loss, const RunningStatistics& running);
void update_running(CudaStream& stream, const View& mean, const View& variance, const Correction& correction,
                    const View* loss, const RunningStatistics& running);

}  // namespace headroom::kernels
