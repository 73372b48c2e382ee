#pragma once
// Normalisation by the root mean square of the last axis (Zhang and Sennrich 2019, arXiv:1910.07467) and its gradient.
// To also remove the mean use layer_norm/.
//
//     rms_norm(stream, x, &gamma, 1e-5, y, rstd);                          // x, y [768, 128], gamma [128]
//     const RmsNormGradientPlan plan(stream, x, dy, &gamma, rstd,
//                         {.x = &dx, .gamma = {&dgamma, 1}});
//     plan.run(stream, scratch);                                          // plan.scratch() bytes
//
// Any floating dtypes and strides; f64 is computed in f64, everything else in f32. `rstd` is contiguous, one element
// per row, f32 (f64 for f64 x).
#include <cstddef>

#include <headroom/kernels/gradient_target.hpp>
#include <headroom/kernels/layer_norm/internal/normalize.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = x * rstd * gamma with rstd = 1 / sqrt(mean(x^2) + epsilon). `gamma` [n] may be null: 1. y may be x.
void rms_norm(CpuStream& stream, const View& x, const View* gamma, double epsilon, const View& y, const View& rstd);
void rms_norm(CudaStream& stream, const View& x, const View* gamma, double epsilon, const View& y, const View& rstd);

struct RmsNormGradients {
    GradientTarget x{}, gamma{};
};

/// With h = x * rstd and g = dy * gamma: dx = rstd * (g - h * mean(g * h)), dgamma = sum(dy * h) over all rows, in
/// chunks of rows that depend only on the shape. x's gradient may be dy's memory (beta 0). Views behind pointers must
/// stay alive until it runs.
class RmsNormGradientPlan {
  public:
    RmsNormGradientPlan(const Stream& stream, const View& x, const View& dy, const View* gamma, const View& rstd,
                        const RmsNormGradients& gradients);

    /// Bytes: sums of gamma's gradient per chunk of rows.
    std::size_t scratch() const { return chunks_.scratch(1, x_.dtype); }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View x_, dy_, rstd_;
    const View* gamma_;
    RmsNormGradients gradients_;
    NormChunks chunks_;
};

}  // namespace headroom::kernels
