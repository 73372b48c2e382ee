#include <headroom/nn/dropout.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/dropout.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

double checked(double p) {
    if (!(p >= 0.0 && p < 1.0)) throw Error(fmt::format("dropout: the probability must be in [0, 1), got {}", p));
    return p;
}

}  // namespace

Dropout::Dropout(const Path& path, double p) : Module(path), p(checked(p)) {}

Tensor Dropout::forward(Tensor x) const { return dropout(std::move(x), p, training()); }

DropoutAdd::DropoutAdd(const Path& path, double p) : Module(path), p(checked(p)) {}

Tensor DropoutAdd::forward(Tensor branch, Tensor x) const {
    return dropout_add(std::move(branch), std::move(x), p, training());
}

}  // namespace headroom::nn
