#pragma once
// Layer normalisation over the last axis (Ba, Kiros and Hinton 2016, arXiv:1607.06450) and its gradient. For other axes
// permute the view, or use `moments`.
//
//     layer_norm(stream, x, &gamma, &beta, 1e-5, y, mean, rstd);          // x, y [768, 128], gamma, beta [128]
//     const LayerNormGradientPlan plan(stream, x, dy, &gamma, mean, rstd,
//                           {.x = &dx, .gamma = {&dgamma, 1}});
//     plan.run(stream, scratch);                                          // plan.scratch() bytes
//
// Any floating dtypes and strides; f64 is computed in f64, everything else in f32. `mean` and `rstd` are contiguous,
// one element per row, f32 (f64 for f64 x). A row is read from memory once: its sums are computed in the L1 cache, and
// the variance from differences to the mean.
#include <cstddef>

#include <headroom/kernels/gradient_target.hpp>
#include <headroom/kernels/layer_norm/internal/normalize.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(variance + epsilon), the variance over n. `gamma` and
/// `beta` [n] may be null: 1 and 0. y may be x. A row of equal numbers gives exactly beta; on a GPU, a
/// row of halves does so up to a length of 8,192.
void layer_norm(CpuStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
                const View& mean, const View& rstd);
void layer_norm(CudaStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
                const View& mean, const View& rstd);

struct LayerNormGradients {
    GradientTarget x{}, gamma{}, beta{};
};

/// With h = (x - mean) * rstd and g = dy * gamma: dx = rstd * (g - mean(g) - h * mean(g * h)), dgamma = sum(dy * h) and
/// dbeta = sum(dy) over all rows, summed first in chunks of rows that depend only on the shape, then over the chunks.
/// x's gradient may be dy's memory (beta 0). Views behind pointers must stay alive until it runs.
class LayerNormGradientPlan {
  public:
    LayerNormGradientPlan(const Stream& stream, const View& x, const View& dy, const View* gamma, const View& mean,
                          const View& rstd, const LayerNormGradients& gradients);

    /// Bytes: sums of gamma's and beta's gradients per chunk of rows.
    std::size_t scratch() const { return chunks_.scratch(2, x_.dtype); }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View x_, dy_, mean_, rstd_;
    const View* gamma_;
    LayerNormGradients gradients_;
    NormChunks chunks_;
};

}  // namespace headroom::kernels
