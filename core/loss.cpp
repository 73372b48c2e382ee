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
    throw ShapeError(fmt::format("loss: {} must have one element, got {}; sum over all terms first", what,
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

Loss operator+(const Loss& a, const Loss& b) {
    const Tensor sum = a.sum() + b.sum().reshape(a.sum().shape());
    const double *const number = std::get_if<double>(&a.counted()), *const other = std::get_if<double>(&b.counted());
    if (number && other) {
        if (*number == *other) return {sum, *number};
        throw Error(
            fmt::format("loss: losses must have the same number of terms to be added, got {} and {}; build one Loss "
                        "from the sum and the number of terms to divide by",
                        *number, *other));
    }
    if (!number && !other) {
        const Tensor &terms = std::get<Tensor>(a.counted()), &others = std::get<Tensor>(b.counted());
        if (terms.value() == others.value() && terms.geometry() == others.geometry()) return {sum, terms};
    }
    throw Error(
        "loss: losses can't be added when the device counted the terms of one, because the counts may differ; if they "
        "are equal, add the sums: Loss(a.sum() + b.sum(), b.terms()), or pass the count as a number or tensor");
}

Loss operator*(const Loss& loss, double weight) {
    return std::visit([&](const auto& terms) { return Loss(loss.sum() * weight, terms); }, loss.counted());
}
Loss operator*(double weight, const Loss& loss) { return loss * weight; }

}  // namespace headroom
