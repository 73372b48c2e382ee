#pragma once
// Dropout: while training, zeroes elements with probability p and scales the others by 1 / (1 - p). Stores no mask.
// Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
//
//     nn::Dropout drop(root / "drop", 0.1);
//     x = drop(std::move(x));
//     x = drop(std::move(branch), std::move(x));    // x + drop(branch), in one pass
#include <headroom/nn/module.hpp>

namespace headroom::nn {

class Dropout : public Module<Dropout> {
  public:
    /// Errors: Error unless p is in [0, 1).
    Dropout(const At& at, double p);
    Tensor forward(Tensor x) const;
    /// A residual connection, x + forward(branch) (see `dropout_add`).
    Tensor forward(Tensor branch, Tensor x) const;

    double p;
};

}  // namespace headroom::nn
