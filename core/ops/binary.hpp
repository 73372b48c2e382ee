#pragma once
// Pointwise functions of two tensors. They broadcast by NumPy's rule: shapes are aligned at the last axis, and sizes of
// 1 stretch. For a tensor and a number see unary.hpp, for truth values compare.hpp.
//
//     Tensor y = x + bias;                 // x [768, 128], bias [128]
//     x = x + f(x);                        // takes over the storage of f(x) if nothing else needs it
//     Tensor z = maximum(a, b) / (a * a);
//
// Mixed floating dtypes give the widest, without a cast of the inputs; a floating and an integer dtype give the
// floating one. Sums and products of bool are bool. Errors: ShapeError if the shapes do not broadcast; DtypeError for
// integers in `pow` and `lerp`, and for two bool tensors in `sub`.
#include <headroom/core/apply.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom {

namespace ops {

/// A pointwise function of two arguments as an op.
template <class F>
struct Binary {
    struct Two {
        Array a;
        Array b;
    };
    struct Nothing {};
    static constexpr OpInfo info{.name = F::name, .precision = Precision::full, .in_place = 0b11};
    using Attrs = F;
    using Saved = std::conditional_t<F::saves == kernels::Saves::nothing, Nothing, Two>;
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& a, const Array& b);
    static void backward(Exec& exec, const Attrs& f, Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// Adds all of them to the list, for `all_ops`.
void add_binary(std::vector<OpEntry>& all);

}  // namespace ops

/// a + b. This and the next three are also operators.
Tensor add(Tensor a, Tensor b);
/// a - b
Tensor sub(Tensor a, Tensor b);
/// a b
Tensor mul(Tensor a, Tensor b);
/// a / b; integers and bool are divided as f32.
Tensor div(Tensor a, Tensor b);
/// a to the power of b. b's gradient is a^b log(a), and 0 where a is 0 and b is not negative.
Tensor pow(Tensor a, Tensor b);
/// The larger; NaN if either is. Equal arguments share the gradient.
Tensor maximum(Tensor a, Tensor b);
/// The smaller; NaN if either is. Equal arguments share the gradient.
Tensor minimum(Tensor a, Tensor b);
/// a + weight (b - a): a for a weight of 0, b for 1.
Tensor lerp(Tensor a, Tensor b, double weight);
/// a sigmoid(b), where a and b are the halves of an axis of x (Dauphin et al. 2017, arXiv:1612.08083). Errors:
/// ShapeError if the axis is odd; DtypeError unless floating.
Tensor glu(Tensor x, int axis = -1);
/// silu(gate) x, with broadcasting (Shazeer 2020, arXiv:2002.05202), for two layers or the halves of one. Errors:
/// DtypeError unless floating.
Tensor swiglu(Tensor gate, Tensor x);

Tensor operator+(Tensor a, Tensor b);
Tensor operator-(Tensor a, Tensor b);
Tensor operator*(Tensor a, Tensor b);
Tensor operator/(Tensor a, Tensor b);

}  // namespace headroom
