#pragma once
// Dropout (Srivastava et al. 2014) as a function. The context's seed and counter determine the dropped elements, so
// nothing is stored for backward and a recomputed region drops the same ones. For a layer see nn.
//
//     Tensor y = dropout(x, 0.1);               // with a key from `Context::next_random`
//     Tensor same = dropout(x, 0.1, false);     // x
//     x = dropout_add(f(x), x, 0.1);            // x + dropout(f(x)), in one pass
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Dropout {
    static constexpr OpInfo info{.name = "dropout", .in_place = 0b1};
    struct Attrs {
        float p = 0.5f;
        kernels::RandomKey key;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// A residual connection. Takes one pass over memory where `dropout` and `add` take two; the residual's gradient is dy
/// itself.
struct DropoutAdd {
    static constexpr OpInfo info{.name = "dropout_add", .precision = Precision::full, .in_place = 0b11};
    struct Attrs {
        float p = 0.5f;
        kernels::RandomKey key;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& branch, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Zeroes each element with probability p and divides the others by 1 - p; returns x itself if not `training` or p is
/// 0. Errors: Error unless p is in [0, 1]; DtypeError unless x is floating.
Tensor dropout(Tensor x, double p, bool training = true);

/// x + dropout(branch), both of the same shape; add(branch, x) if not `training` or p is 0. Reuses the storage of
/// either if nothing else needs it, the branch's first. Drops the same elements as `dropout`. For f32 and f64 the sum
/// has the bits of `dropout` and `add`; halves are rounded once instead of twice. Errors: Error unless p is in [0, 1];
/// ShapeError unless the shapes are equal; DtypeError unless both are floating.
Tensor dropout_add(Tensor branch, Tensor x, double p, bool training = true);

}  // namespace headroom
