#pragma once
// Pointwise functions of one tensor, and arithmetic of a tensor with a number. A tensor that is moved in may give its
// storage to the result where its values are not needed any more. For two tensors see binary.hpp; a new function is a
// struct with two formulas (kernels/pointwise/functions.hpp), one line in unary.cpp and one in all_ops.cpp.
//
//     Tensor y = gelu(x * 2.0 + 1.0);
//     Tensor z = relu(std::move(y));      // in place
//     Tensor w = clamp(1.0 / x, -10.0, 10.0);
//     Tensor p = pow(x, 3.0);
//
// Results have the dtype of x. Errors: DtypeError for integers and bool, except where said.
#include <headroom/core/apply.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom {

namespace ops {

struct NothingSaved {};
struct OneSaved {
    Array value;
};

/// A pointwise function as an op: the function with its parameters is the op's attributes.
template <class F>
struct Unary {
    static constexpr OpInfo info{.name = F::name, .in_place = 0b1};
    using Attrs = F;
    using Saved = std::conditional_t<F::saves == kernels::Saves::nothing, NothingSaved, OneSaved>;
    static Result<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& x);
    static void backward(Exec& exec, const Attrs& f, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

Tensor exp(Tensor x);
Tensor log(Tensor x);
Tensor sqrt(Tensor x);
/// 1 / sqrt(x)
Tensor rsqrt(Tensor x);
/// 1 / x
Tensor reciprocal(Tensor x);
Tensor sin(Tensor x);
Tensor cos(Tensor x);
Tensor tanh(Tensor x);
/// 1 / (1 + e^-x)
Tensor sigmoid(Tensor x);
/// x sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2018).
Tensor silu(Tensor x);
/// x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016, arXiv:1606.08415); by default with the
/// approximation by tanh that GPT-2 has.
enum class Gelu : std::uint8_t { tanh, erf };
Tensor gelu(Tensor x, Gelu form = Gelu::tanh);
/// x to a constant power.
Tensor pow(Tensor x, double exponent);

// These take integers, too.
Tensor neg(Tensor x);
Tensor abs(Tensor x);
Tensor square(Tensor x);
/// The larger of x and 0; the gradient at 0 is 0.
Tensor relu(Tensor x);
/// x held between `low` and `high`, either of which may be infinite; the gradient on the borders is 1.
Tensor clamp(Tensor x, double low, double high);
/// factor x + offset. Errors: DtypeError if x has integers and the numbers are not whole.
Tensor affine(Tensor x, double factor, double offset);

Tensor operator-(Tensor x);
Tensor operator+(Tensor x, double b);
Tensor operator+(double a, Tensor x);
Tensor operator-(Tensor x, double b);
Tensor operator-(double a, Tensor x);
Tensor operator*(Tensor x, double b);
Tensor operator*(double a, Tensor x);
/// x times the reciprocal of b. Errors: DtypeError for integers.
Tensor operator/(Tensor x, double b);
Tensor operator/(double a, Tensor x);

}  // namespace headroom
