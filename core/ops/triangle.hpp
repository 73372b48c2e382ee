#pragma once
// Triangles of matrices. For the mask of attention see `causal_mask` in create.hpp.
//
//     Tensor lower = tril(x);              // zeros above the diagonal
//     Tensor strict = triu(x, 1);          // zeros on and below it
#include <headroom/core/apply.hpp>
#include <headroom/kernels/triangle/triangle.hpp>

namespace headroom {

namespace ops {

template <bool kLower>
struct TriangleOf {
    static constexpr OpInfo info{.name = kLower ? "tril" : "triu", .in_place = 0b1};
    struct Attrs {
        std::int64_t diagonal = 0;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};
using Tril = TriangleOf<true>;
using Triu = TriangleOf<false>;

}  // namespace ops

/// x [..., m, n] with zeros where j > i + diagonal. Any dtype. Errors: ShapeError.
Tensor tril(Tensor x, std::int64_t diagonal = 0);
/// x [..., m, n] with zeros where j < i + diagonal.
Tensor triu(Tensor x, std::int64_t diagonal = 0);

}  // namespace headroom
