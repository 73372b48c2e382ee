#include <headroom/core/ops/cosine.hpp>

#include <limits>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>

namespace headroom {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastEpsilon = 1e-18;  // its square is above 0 in f32

/// max(|x|, epsilon); the square is bounded before the root, whose derivative at 0 is infinite.
Tensor length(const Tensor& x, int axis, double epsilon) {
    return sqrt(clamp(sum(square(x), axis), epsilon * epsilon, kInfinity));
}

/// x / max(|x|, epsilon): of a number its sign, which has no gradient.
Tensor direction(const Tensor& x, double epsilon) { return clamp(x / epsilon, -1.0, 1.0); }

}  // namespace

Tensor cosine_similarity(Tensor a, Tensor b, int axis, double epsilon) {
    constexpr const char* op = "cosine_similarity";
    check_floating(op, {{"a", a}, {"b", b}});
    check_range(op, "epsilon", epsilon, kLeastEpsilon, kInfinity);
    const Dtype compute = compute_dtype(promoted(a.dtype(), b.dtype()));
    const Shape shape = kernels::broadcast_shapes(op, a.shape(), b.shape());
    check_axis(op, shape, axis);
    return as_op(op, [&] {
        if (a.dtype() != compute) a = cast(std::move(a), compute);
        if (b.dtype() != compute) b = cast(std::move(b), compute);
        if (a.shape() != shape) a = expand(std::move(a), shape);
        if (b.shape() != shape) b = expand(std::move(b), shape);
        if (a.size(axis) == 1) return sum(direction(a, epsilon) * direction(b, epsilon), axis);
        return sum(a * b, axis) / (length(a, axis, epsilon) * length(b, axis, epsilon));
    });
}

Loss cosine_embedding_loss(Tensor a, Tensor b, Tensor target, double margin) {
    constexpr const char* op = "cosine_embedding_loss";
    check_floating(op, {{"a", a}, {"b", b}});
    check_defined(op, {{"target", target}});
    check_same_shape(op, {"b", b}, {"a", a});
    check_form(op, {"a", a}, a.rank() > 0, "[..., D]");
    Shape pairs = a.shape();
    pairs.erase(pairs.rank() - 1);
    check_shape(op, {"target", target}, pairs, {"a", a});
    check_range(op, "margin", margin, -1, 1);
    return as_op(op, [&]() -> Loss {
        const Tensor alike = cosine_similarity(std::move(a), std::move(b));
        return {sum(where(target > 0.0, 1.0 - alike, relu(alike - margin))), static_cast<double>(pairs.numel())};
    });
}

}  // namespace headroom
