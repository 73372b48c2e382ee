#pragma once
// Dropout: in training, zeroes elements with probability p and scales the others by 1 / (1 - p). Stores no mask.
// Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
//
//     nn::Dropout drop(root / "drop", 0.1);
//     x = drop(std::move(x));
//     nn::DropoutAdd residual(root / "residual", 0.1);
//     x = residual(std::move(branch), std::move(x));    // x + dropout(branch), in one pass
#include <headroom/nn/module.hpp>

namespace headroom::nn {

class Dropout : public Module<Dropout> {
  public:
    /// Errors: Error unless p is in [0, 1).
    Dropout(const Path& path, double p);
    Tensor forward(Tensor x) const;

    double p;
};

/// A residual connection with dropout (see `dropout_add`).
class DropoutAdd : public Module<DropoutAdd> {
  public:
    /// Errors: Error unless p is in [0, 1).
    DropoutAdd(const Path& path, double p);
    /// x + dropout(branch), both of the same shape.
    Tensor forward(Tensor branch, Tensor x) const;

    double p;
};

}  // namespace headroom::nn
