#include <headroom/core/loss.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

void check_one(const char* what, const Tensor& tensor) {
    if (tensor.defined() && tensor.numel() == 1) return;
    throw ShapeError(fmt::format("loss: {} must have one element, got {}; sum it over all terms", what,
                                 tensor.defined() ? tensor.shape().to_string() : "an undefined tensor"));
}

}  // namespace

Loss::Loss(Tensor sum, double terms) : sum_(std::move(sum)), terms_(terms) {
    check_one("the sum", sum_);
    if (std::isfinite(terms) && terms >= 0) return;
    throw Error(fmt::format("loss: the number of terms must be finite and not negative, got {}", terms));
}

Loss::Loss(Tensor sum, Tensor terms) : sum_(std::move(sum)), terms_(std::move(terms)) {
    check_one("the sum", sum_);
    check_one("the number of terms", std::get<Tensor>(terms_));
    check_one_context("loss", sum_.context(), std::get<Tensor>(terms_).context());
}

Tensor Loss::mean() const {
    if (const double* terms = std::get_if<double>(&terms_)) return sum_ / *terms;
    const Tensor& terms = std::get<Tensor>(terms_);
    return div(sum_, cast(terms.reshape(sum_.shape()), sum_.dtype()));
}

double Loss::terms() const {
    if (const double* terms = std::get_if<double>(&terms_)) return *terms;
    return std::get<Tensor>(terms_).item();
}

}  // namespace headroom
