#include <headroom/core/ops/unary.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

template <class F>
OpResult<typename Unary<F>::Saved, Array> Unary<F>::forward(Exec& exec, const Attrs& f, const Array& x) {
    kernels::takes_integers<F>() ? check_number(F::name, {"x", x}) : check_floating(F::name, {{"x", x}});
    const bool keeps_x = F::saves == kernels::Saves::input && exec.saved_wanted();
    OpResult<Saved, Array> result{{},
                                  keeps_x ? exec.fresh_output(x.shape(), x.dtype) : exec.output(x.shape(), x.dtype)};
    const Array& y = result.out;
    exec.launch([&](auto& stream) { kernels::map(stream, f, x.view(), y.view()); });
    if constexpr (F::saves == kernels::Saves::input) {
        if (keeps_x) result.saved.value = x;
    } else if constexpr (F::saves == kernels::Saves::output) {
        result.saved.value = y;
    }
    return result;
}

template <class F>
void Unary<F>::backward(Exec& exec, const Attrs& f, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0, dy)) {
        exec.launch([&](auto& stream) {
            if constexpr (F::saves == kernels::Saves::nothing) {
                kernels::map_backward(stream, f, dy.view(), dy.view(), dx.beta, dx.view());
            } else {
                kernels::map_backward(stream, f, saved.value.view(), dy.view(), dx.beta, dx.view());
            }
        });
    }
}

namespace {

std::vector<Sample<NoAttrs>> samples_in(const kernels::Domain& domain, bool integers) {
    const auto input = [&](Shape shape) { return SampleInput::in(domain, shape); };
    std::vector<Sample<NoAttrs>> all{{"matrix", {}, {input({3, 5})}},
                                     {"one element", {}, {input({})}},
                                     {"rank 4", {}, {input({2, 3, 1, 4})}},
                                     {"empty", {}, {input({0, 3})}}};
    if (!integers) all.push_back({"integers", {}, {SampleInput::index({3}, 5)}, "x must be floating"});
    return all;
}

}  // namespace

template <class F>
std::vector<Sample<F>> Unary<F>::samples() {
    return with_attrs(kernels::sample_of<F>(), samples_in(kernels::domain_of<F>(), kernels::takes_integers<F>()));
}

void add_unary(std::vector<OpEntry>& all) {
    add_entries<Unary>(all, kernels::UnaryFunctions{});
    add_entries<Unary>(all, kernels::Activations{});
}

}  // namespace ops

namespace {

template <class F>
Tensor unary(const F& f, Tensor x) {
    return apply<ops::Unary<F>>(f, std::move(x));
}

/// x in the dtype of its arithmetic with these numbers. Integers are computed in 64 bits, numbers are held exactly
/// in 53.
Tensor promoted_with(const char* op, Tensor x, std::initializer_list<Scalar> numbers) {
    check_defined(op, {{"x", x}});
    const Dtype dtype = promoted(x.dtype(), numbers);
    for (const Scalar number : numbers) {
        if (is_floating(dtype) || std::abs(number.value()) <= 0x1p53) continue;
        throw DtypeError(fmt::format("{}: {} is too large for {}, whose limit is 2^53 here; use cast()", op,
                                     number.value(), name(dtype)));
    }
    return cast(std::move(x), dtype);
}

/// Division of integers is that of numbers.
Tensor divisible(Tensor x) { return promoted_with("div", std::move(x), {1.0}); }

}  // namespace

Tensor exp(Tensor x) { return unary(kernels::Exp{}, std::move(x)); }
Tensor expm1(Tensor x) { return unary(kernels::Expm1{}, std::move(x)); }
Tensor log(Tensor x) { return unary(kernels::Log{}, std::move(x)); }
Tensor log1p(Tensor x) { return unary(kernels::Log1p{}, std::move(x)); }
Tensor sqrt(Tensor x) { return unary(kernels::Sqrt{}, std::move(x)); }
Tensor rsqrt(Tensor x) { return unary(kernels::Rsqrt{}, std::move(x)); }
Tensor reciprocal(Tensor x) { return unary(kernels::Reciprocal{}, std::move(x)); }
Tensor sin(Tensor x) { return unary(kernels::Sin{}, std::move(x)); }
Tensor cos(Tensor x) { return unary(kernels::Cos{}, std::move(x)); }
Tensor erf(Tensor x) { return unary(kernels::Erf{}, std::move(x)); }
Tensor floor(Tensor x) { return unary(kernels::Floor{}, std::move(x)); }
Tensor ceil(Tensor x) { return unary(kernels::Ceil{}, std::move(x)); }
Tensor round(Tensor x) { return unary(kernels::Round{}, std::move(x)); }
Tensor tanh(Tensor x) { return unary(kernels::Tanh{}, std::move(x)); }
Tensor sigmoid(Tensor x) { return unary(kernels::Sigmoid{}, std::move(x)); }
Tensor silu(Tensor x) { return unary(kernels::Silu{}, std::move(x)); }
Tensor leaky_relu(Tensor x, double slope) { return unary(kernels::LeakyRelu{slope}, std::move(x)); }
Tensor elu(Tensor x, double alpha) { return unary(kernels::Elu{alpha}, std::move(x)); }
Tensor softplus(Tensor x) { return unary(kernels::Softplus{}, std::move(x)); }
Tensor neg(Tensor x) { return unary(kernels::Neg{}, std::move(x)); }
Tensor abs(Tensor x) { return unary(kernels::Abs{}, std::move(x)); }
Tensor square(Tensor x) { return unary(kernels::Square{}, std::move(x)); }
Tensor sign(Tensor x) { return unary(kernels::Sign{}, std::move(x)); }
Tensor relu(Tensor x) { return unary(kernels::Relu{}, std::move(x)); }

Tensor gelu(Tensor x, Gelu form) {
    return as_op("gelu", [&] {
        return form == Gelu::tanh ? unary(kernels::GeluTanh{}, std::move(x)) : unary(kernels::GeluErf{}, std::move(x));
    });
}

Tensor pow(Tensor x, Scalar number) {
    x = promoted_with("pow", std::move(x), {number});
    const double exponent = number.value();
    if (exponent == 1.0) return x;
    return as_op("pow", [&] {
        if (exponent == 2.0) return square(std::move(x));
        if (exponent == 0.5) return sqrt(std::move(x));
        if (exponent == -0.5) return rsqrt(std::move(x));
        if (exponent == -1.0) return reciprocal(std::move(x));
        return unary(kernels::PowScalar{exponent}, std::move(x));
    });
}

Tensor clamp(Tensor x, Scalar low, Scalar high) {
    if (!(low.value() <= high.value())) {
        throw Error(fmt::format("clamp: the lower bound {} is above the upper bound {}", low.value(), high.value()));
    }
    const auto bound = [](Scalar number) { return std::isfinite(number.value()) ? number : Scalar(0); };
    x = promoted_with("clamp", std::move(x), {bound(low), bound(high)});
    constexpr double largest = 0x1p62;  // stands for infinity among integers: whole, and held by 64 bits
    if (is_floating(x.dtype())) return unary(kernels::Clamp{low.value(), high.value()}, std::move(x));
    return unary(kernels::Clamp{std::max(low.value(), -largest), std::min(high.value(), largest)}, std::move(x));
}

Tensor affine(Tensor x, Scalar factor, Scalar offset) {
    x = promoted_with("affine", std::move(x), {factor, offset});
    return unary(kernels::Affine{factor.value(), offset.value()}, std::move(x));
}

Tensor operator-(Tensor x) { return neg(std::move(x)); }
Tensor operator+(Tensor x, Scalar b) { return affine(std::move(x), 1, b); }
Tensor operator+(Scalar a, Tensor x) { return affine(std::move(x), 1, a); }
Tensor operator-(Tensor x, Scalar b) { return affine(std::move(x), 1, -b); }
Tensor operator-(Scalar a, Tensor x) { return affine(std::move(x), -1, a); }
Tensor operator*(Tensor x, Scalar b) { return affine(std::move(x), b, 0); }
Tensor operator*(Scalar a, Tensor x) { return affine(std::move(x), a, 0); }
Tensor operator/(Tensor x, Scalar b) { return affine(divisible(std::move(x)), 1.0 / b.value(), 0); }
Tensor operator/(Scalar a, Tensor x) {
    Tensor y = reciprocal(divisible(std::move(x)));
    return a.value() == 1.0 ? y : affine(std::move(y), a, 0);
}

}  // namespace headroom
