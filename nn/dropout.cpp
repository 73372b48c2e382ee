#include <headroom/nn/dropout.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/dropout.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

Dropout::Dropout(const At& at, double p_) : Module(at), p(p_) {
    if (!(p >= 0.0 && p < 1.0)) throw Error(fmt::format("dropout: the probability must be in [0, 1), got {}", p));
}

Tensor Dropout::forward(Tensor x) const { return dropout(std::move(x), p, training()); }

Tensor Dropout::forward(Tensor branch, Tensor x) const {
    return dropout_add(std::move(branch), std::move(x), p, training());
}

}  // namespace headroom::nn
