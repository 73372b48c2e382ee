#pragma once
// Pointwise functions of one tensor, and arithmetic of a tensor with a number. The result may reuse the storage of a
// tensor that is moved in, if nothing else needs its values. For two tensors see binary.hpp. To add a function, write a
// struct with two formulas in a header listed in kernels/pointwise/functions.hpp, and declare the function here.
//
//     Tensor y = gelu(x * 2.0 + 1.0);
//     Tensor z = relu(std::move(y));      // in place
//     Tensor w = clamp(1.0 / x, -10.0, 10.0);
//     Tensor p = pow(x, 3.0);
//
// Results have the dtype of x. Errors: DtypeError for integers and bool, unless noted. Arithmetic with a number
// promotes integers and bool as in PyTorch: with a floating number (2.0) the result is f32; with an integer (2),
// integers keep their dtype and bool becomes i64.
#include <headroom/core/apply.hpp>
#include <headroom/core/scalar.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom {

namespace ops {

struct NothingSaved {};
struct OneSaved {
    Array value;
};

/// A pointwise function as an op; the function with its parameters is the op's attributes.
template <class F>
struct Unary {
    static constexpr OpInfo info{.name = F::name, .in_place = 0b1};
    using Attrs = F;
    using Saved = std::conditional_t<F::saves == kernels::Saves::nothing, NothingSaved, OneSaved>;
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& x);
    static void backward(Exec& exec, const Attrs& f, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// Adds all of them to the list, for `all_ops`.
void add_unary(std::vector<OpEntry>& all);

}  // namespace ops

/// e^x
Tensor exp(Tensor x);
/// e^x - 1, accurate near 0.
Tensor expm1(Tensor x);
/// The natural logarithm.
Tensor log(Tensor x);
/// log(1 + x), accurate near 0.
Tensor log1p(Tensor x);
/// The square root.
Tensor sqrt(Tensor x);
/// 1 / sqrt(x)
Tensor rsqrt(Tensor x);
/// 1 / x
Tensor reciprocal(Tensor x);
/// The sine of x in radians.
Tensor sin(Tensor x);
/// The cosine of x in radians.
Tensor cos(Tensor x);
/// The error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.
Tensor erf(Tensor x);
/// The largest integer not above x; the gradient is 0.
Tensor floor(Tensor x);
/// The smallest integer not below x; the gradient is 0.
Tensor ceil(Tensor x);
/// The nearest integer, ties to even; the gradient is 0.
Tensor round(Tensor x);
/// The hyperbolic tangent.
Tensor tanh(Tensor x);
/// 1 / (1 + e^-x)
Tensor sigmoid(Tensor x);
/// x sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2018).
Tensor silu(Tensor x);
/// The forms of GELU: GPT-2's tanh approximation, or the exact one.
enum class Gelu : std::uint8_t { tanh, erf };
/// GELU in the tanh form, or with Gelu::erf in the exact form x Phi(x), which is PyTorch's default. Phi is the normal
/// distribution function (Hendrycks and Gimpel 2016, arXiv:1606.08415).
Tensor gelu(Tensor x, Gelu form = Gelu::tanh);
/// x above 0, slope x below; the gradient at 0 is the slope.
Tensor leaky_relu(Tensor x, double slope = 0.01);
/// x above 0, alpha (e^x - 1) below (Clevert, Unterthiner and Hochreiter 2016, arXiv:1511.07289).
Tensor elu(Tensor x, double alpha = 1.0);
/// log(1 + e^x), without overflow.
Tensor softplus(Tensor x);
/// x to a constant power. For integers, the exponent must be floating, 1 or 2.
Tensor pow(Tensor x, Scalar exponent);

/// -x; also an operator. Also for integers.
Tensor neg(Tensor x);
/// |x|; the gradient at 0 is 0. Also for integers.
Tensor abs(Tensor x);
/// x x. Also for integers.
Tensor square(Tensor x);
/// -1, 0 or 1, NaN for NaN; the gradient is 0.
Tensor sign(Tensor x);
/// The larger of x and 0; the gradient at 0 is 0. Also for integers.
Tensor relu(Tensor x);
/// x clamped to [low, high]. A bound may be infinite; it then has no effect on the promotion. The gradient at the
/// bounds is 1.
Tensor clamp(Tensor x, Scalar low, Scalar high);
/// factor x + offset. Errors: DtypeError if x is an integer tensor and a number is beyond 2^53.
Tensor affine(Tensor x, Scalar factor, Scalar offset);

Tensor operator-(Tensor x);
Tensor operator+(Tensor x, Scalar b);
Tensor operator+(Scalar a, Tensor x);
Tensor operator-(Tensor x, Scalar b);
Tensor operator-(Scalar a, Tensor x);
Tensor operator*(Tensor x, Scalar b);
Tensor operator*(Scalar a, Tensor x);
/// x times the reciprocal of b; integers and bool are divided as f32.
Tensor operator/(Tensor x, Scalar b);
Tensor operator/(Scalar a, Tensor x);

}  // namespace headroom
