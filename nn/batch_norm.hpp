#pragma once
// Batch normalisation of images (Ioffe and Szegedy 2015, arXiv:1502.03167), fused with the residual add and the ReLU
// that follow. Training mode normalises by the batch's statistics, evaluation mode by the running ones.
//
//     nn::BatchNorm2d norm(root / "bn1", 64, {.relu = true});
//     x = norm(conv(std::move(x)));                               // relu(batch_norm(x))
//     x = last(std::move(x), std::move(residual));                // relu(batch_norm(x) + residual)
//     nn::BatchNorm2d fixed(root / "bn1", 64, {.frozen = true});  // for a frozen backbone
//
// Running statistics are buffers under PyTorch's names. A batch updates them once, after its backward pass has
// succeeded, even if the forward pass is recomputed. It does not update them if forward or backward fails, so a retry
// counts once, nor if the loss is not finite. Without recording (`NoGradGuard`) it updates them immediately, if its
// statistics are finite.
#include <cstdint>
#include <optional>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

struct BatchNorm2dOptions {
    double epsilon = 1e-5;
    std::optional<double> momentum =
        0.1;             ///< weight of the new batch in the running statistics; none: the average of all batches
    bool affine = true;  ///< false: without weight and bias
    bool relu = false;   ///< applied last
    /// Always normalises by the running statistics, which never change. Weight and bias are buffers, without gradients
    /// or optimizer state, and batches are not counted.
    bool frozen = false;
};

class BatchNorm2d : public Module<BatchNorm2d> {
  public:
    /// Errors: Error unless momentum is in [0, 1].
    BatchNorm2d(const Path& path, std::int64_t channels, BatchNorm2dOptions options = {});
    /// x [N, C, H, W] -> the same shape; other axes after C are also accepted. `residual` is undefined or has x's
    /// shape. Errors: as batch_norm; ShapeError if a channel has fewer than two values in training.
    Tensor forward(Tensor x, Tensor residual = {}) const;

    Tensor weight;               ///< [C], ones; undefined if not affine
    Tensor bias;                 ///< [C], zeros; undefined if not affine
    Tensor running_mean;         ///< [C], zeros
    Tensor running_var;          ///< [C], ones; with divisor n - 1
    Tensor num_batches_tracked;  ///< i64, 0; undefined if frozen
    BatchNorm2dOptions options;

  private:
    void take_in(const Tensor& mean, const Tensor& variance, double values) const;
};

}  // namespace headroom::nn
