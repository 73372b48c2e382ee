#pragma once
// Matrix products, batched and broadcasting. For a layer with a weight [out, in] see linear.hpp, for attention
// attention.hpp.
//
//     Tensor c = matmul(a, b);                          // a [8, 64, 32], b [8, 32, 16] -> c [8, 64, 16]
//     Tensor d = matmul(a, b.select(0, 0));             // one matrix for all batches
//     Tensor gram = matmul(x, x.transpose(-1, -2));
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Matmul {
    static constexpr OpInfo info{.name = "matmul", .cost = Cost::expensive, .precision = Precision::half};
    struct Attrs {};
    struct Saved {
        Array a;
        Array b;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& a, const Array& b);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dc, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// a [..., m, k], b [..., k, n] -> [..., m, n]; the leading axes broadcast. A vector on the left is treated as a row, a
/// vector on the right as a column, and that axis is dropped from the result. Floating dtypes; mixed ones are cast to
/// the widest, under `Autocast` to the half dtype. Errors: ShapeError, DtypeError.
Tensor matmul(Tensor a, Tensor b);

}  // namespace headroom
