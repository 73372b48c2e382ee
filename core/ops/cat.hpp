#pragma once
// Joins tensors along an axis, or along a new one. Splitting is free: `Tensor::split`, `slice` and `select` are views.
//
//     Tensor keys = cat({cache, k}, 1);         // [B, 64, H, D], [B, 1, H, D] -> [B, 65, H, D]
//     Tensor pair = stack({a, b});              // [3], [3] -> [2, 3]
#include <vector>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Cat {
    static constexpr OpInfo info{.name = "cat"};
    struct Attrs {
        int axis = 0;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Joins tensors along an existing axis; their other axes must be equal. Mixed floating dtypes are cast to the widest.
/// Errors: ShapeError, DtypeError; Error for an empty list.
Tensor cat(std::vector<Tensor> tensors, int axis = 0);
/// Joins tensors of the same shape along a new axis (position as in `Tensor::unsqueeze`); otherwise as `cat`.
Tensor stack(std::vector<Tensor> tensors, int axis = 0);

}  // namespace headroom
