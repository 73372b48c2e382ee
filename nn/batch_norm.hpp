#pragma once
// Batch normalisation of images (Ioffe and Szegedy 2015, arXiv:1502.03167), fused with the ReLU and the residual add
// behind it. While training it normalises by the batch's statistics, in evaluation by the running ones.
//
//     nn::BatchNorm2d norm(root / "bn1", 64, {.relu = true});
//     x = norm(conv(std::move(x)));                               // relu(batch_norm(x))
//     x = last(std::move(x), std::move(residual));                // relu(batch_norm(x) + residual)
//     nn::BatchNorm2d fixed(root / "bn1", 64, {.frozen = true});  // of a backbone that is not trained
//
// Running statistics are buffers under PyTorch's names. A batch updates them when its backward pass has succeeded:
// once, even if the forward pass is computed again; not if the forward pass or backward fails, so that a retry counts
// once; and not if the loss is not finite. Without recording (`NoGradGuard`) the batch updates them at once, if its
// statistics are finite.
#include <cstdint>
#include <optional>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

struct BatchNorm2dOptions {
    double epsilon = 1e-5;
    std::optional<double> momentum = 0.1;  ///< a batch's share of the running statistics; none: the average of all
    bool affine = true;                    ///< false: without weight and bias
    bool relu = false;                     ///< behind everything else
    /// Normalises always by the running statistics, which never change. Weight and bias are buffers, without gradients
    /// or moments, and batches are not counted.
    bool frozen = false;
};

class BatchNorm2d : public Module<BatchNorm2d> {
  public:
    /// Errors: Error unless momentum is in [0, 1].
    BatchNorm2d(const Path& path, std::int64_t channels, BatchNorm2dOptions options = {});
    /// x [N, C, H, W] -> the same shape; the axes behind C may be others, too. `residual`: undefined, or of x's shape.
    /// Errors: as batch_norm; ShapeError if a channel has less than two values while training.
    Tensor forward(Tensor x, Tensor residual = {}) const;

    Tensor weight;               ///< [C], ones; undefined without
    Tensor bias;                 ///< [C], zeros; undefined without
    Tensor running_mean;         ///< [C], zeros
    Tensor running_var;          ///< [C], ones; over n - 1
    Tensor num_batches_tracked;  ///< i64, 0; undefined if frozen
    BatchNorm2dOptions options;

  private:
    void take_in(const Tensor& mean, const Tensor& variance, double values) const;
};

}  // namespace headroom::nn
