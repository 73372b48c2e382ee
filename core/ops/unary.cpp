#include <headroom/core/ops/unary.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

template <class F>
Result<typename Unary<F>::Saved, Array> Unary<F>::forward(Exec& exec, const Attrs& f, const Array& x) {
    kernels::takes_integers<F>() ? check_defined(F::name, {{"x", x}}) : check_floating(F::name, {{"x", x}});
    const bool keeps_x = F::saves == kernels::Saves::input && exec.saved_wanted();
    Array y = keeps_x ? exec.empty(x.shape(), x.dtype) : exec.output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::map(stream, f, x.view(), y.view()); });
    if constexpr (F::saves == kernels::Saves::nothing) {
        return {{}, std::move(y)};
    } else if constexpr (F::saves == kernels::Saves::input) {
        return {{keeps_x ? x : Array{}}, std::move(y)};
    } else {
        return {{y}, y};
    }
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

/// Where finite differences may look at a function.
template <class F>
SampleInput domain_of(const Shape& shape) {
    using namespace kernels;
    constexpr bool positive = std::is_same_v<F, Log> || std::is_same_v<F, Sqrt> || std::is_same_v<F, Rsqrt> ||
                              std::is_same_v<F, Reciprocal> || std::is_same_v<F, PowScalar>;
    constexpr bool kinked = std::is_same_v<F, Relu> || std::is_same_v<F, Abs> || std::is_same_v<F, Clamp>;
    if constexpr (positive) return SampleInput::positive(shape);
    if constexpr (kinked) return SampleInput::distinct(shape);
    return SampleInput::normal(shape);
}

template <class F>
F sample_parameters() {
    if constexpr (std::is_same_v<F, kernels::Affine>) return {.factor = -1.5, .offset = 0.25};
    if constexpr (std::is_same_v<F, kernels::Clamp>) return {.low = -0.5, .high = 0.75};
    if constexpr (std::is_same_v<F, kernels::PowScalar>) return {.exponent = 2.5};
    return {};
}

}  // namespace

template <class F>
std::vector<Sample<F>> Unary<F>::samples() {
    const F f = sample_parameters<F>();
    std::vector<Sample<F>> all{{"matrix", f, {domain_of<F>({3, 5})}},
                               {"one element", f, {domain_of<F>({})}},
                               {"rank 4", f, {domain_of<F>({2, 3, 1, 4})}},
                               {"empty", f, {domain_of<F>({0, 3})}}};
    if (!kernels::takes_integers<F>()) {
        all.push_back({"integers", f, {SampleInput::index({3}, 5)}, "x must be floating"});
    }
    return all;
}

template struct Unary<kernels::Neg>;
template struct Unary<kernels::Affine>;
template struct Unary<kernels::Abs>;
template struct Unary<kernels::Square>;
template struct Unary<kernels::Reciprocal>;
template struct Unary<kernels::Sqrt>;
template struct Unary<kernels::Rsqrt>;
template struct Unary<kernels::PowScalar>;
template struct Unary<kernels::Exp>;
template struct Unary<kernels::Log>;
template struct Unary<kernels::Sin>;
template struct Unary<kernels::Cos>;
template struct Unary<kernels::Clamp>;
template struct Unary<kernels::Relu>;
template struct Unary<kernels::Tanh>;
template struct Unary<kernels::Sigmoid>;
template struct Unary<kernels::Silu>;
template struct Unary<kernels::GeluTanh>;
template struct Unary<kernels::GeluErf>;

}  // namespace ops

namespace {

template <class F>
Tensor unary(const F& f, Tensor x) {
    return apply<ops::Unary<F>>(f, std::move(x));
}

/// Integers are computed in 64 bits, so a number that meets them must be one.
void check_whole(const char* op, const Tensor& x, double number) {
    if (!x.defined() || is_floating(x.dtype()) || (std::trunc(number) == number && std::abs(number) <= 0x1p53)) return;
    throw DtypeError(fmt::format("{}: {} with dtype {} needs a whole number; use cast()", op, number, name(x.dtype())));
}

}  // namespace

Tensor exp(Tensor x) { return unary(kernels::Exp{}, std::move(x)); }
Tensor log(Tensor x) { return unary(kernels::Log{}, std::move(x)); }
Tensor sqrt(Tensor x) { return unary(kernels::Sqrt{}, std::move(x)); }
Tensor rsqrt(Tensor x) { return unary(kernels::Rsqrt{}, std::move(x)); }
Tensor reciprocal(Tensor x) { return unary(kernels::Reciprocal{}, std::move(x)); }
Tensor sin(Tensor x) { return unary(kernels::Sin{}, std::move(x)); }
Tensor cos(Tensor x) { return unary(kernels::Cos{}, std::move(x)); }
Tensor tanh(Tensor x) { return unary(kernels::Tanh{}, std::move(x)); }
Tensor sigmoid(Tensor x) { return unary(kernels::Sigmoid{}, std::move(x)); }
Tensor silu(Tensor x) { return unary(kernels::Silu{}, std::move(x)); }
Tensor neg(Tensor x) { return unary(kernels::Neg{}, std::move(x)); }
Tensor abs(Tensor x) { return unary(kernels::Abs{}, std::move(x)); }
Tensor square(Tensor x) { return unary(kernels::Square{}, std::move(x)); }
Tensor relu(Tensor x) { return unary(kernels::Relu{}, std::move(x)); }

Tensor gelu(Tensor x, Gelu form) {
    return form == Gelu::tanh ? unary(kernels::GeluTanh{}, std::move(x)) : unary(kernels::GeluErf{}, std::move(x));
}

Tensor pow(Tensor x, double exponent) {
    if (exponent == 1.0) return x;
    if (exponent == 2.0) return square(std::move(x));
    if (exponent == 0.5) return sqrt(std::move(x));
    if (exponent == -0.5) return rsqrt(std::move(x));
    if (exponent == -1.0) return reciprocal(std::move(x));
    return unary(kernels::PowScalar{exponent}, std::move(x));
}

Tensor clamp(Tensor x, double low, double high) {
    if (!(low <= high)) throw Error(fmt::format("clamp: the lower bound {} is above the upper bound {}", low, high));
    if (x.defined() && !is_floating(x.dtype())) {
        constexpr double largest = 0x1p62;  // stands for infinity: whole, and held by 64 bits
        if (std::isfinite(low)) check_whole("clamp", x, low);
        if (std::isfinite(high)) check_whole("clamp", x, high);
        low = std::max(low, -largest);
        high = std::min(high, largest);
    }
    return unary(kernels::Clamp{low, high}, std::move(x));
}

Tensor affine(Tensor x, double factor, double offset) {
    check_whole("affine", x, factor);
    check_whole("affine", x, offset);
    return unary(kernels::Affine{factor, offset}, std::move(x));
}

Tensor operator-(Tensor x) { return neg(std::move(x)); }
Tensor operator+(Tensor x, double b) { return affine(std::move(x), 1.0, b); }
Tensor operator+(double a, Tensor x) { return affine(std::move(x), 1.0, a); }
Tensor operator-(Tensor x, double b) { return affine(std::move(x), 1.0, -b); }
Tensor operator-(double a, Tensor x) { return affine(std::move(x), -1.0, a); }
Tensor operator*(Tensor x, double b) { return affine(std::move(x), b, 0.0); }
Tensor operator*(double a, Tensor x) { return affine(std::move(x), a, 0.0); }
Tensor operator/(Tensor x, double b) {
    check_floating("div", {{"x", x}});
    return affine(std::move(x), 1.0 / b, 0.0);
}
Tensor operator/(double a, Tensor x) {
    Tensor y = reciprocal(std::move(x));
    return a == 1.0 ? y : affine(std::move(y), a, 0.0);
}

}  // namespace headroom
