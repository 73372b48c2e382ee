#pragma once
// Tensors joined along an axis, or along a new one. The other way is free: `Tensor::split`, `slice` and `select` are
// views.
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
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Joined along an axis that is there; the other axes are equal. Different floating dtypes are cast to the widest.
/// Errors: ShapeError, DtypeError; Error if there is no tensor.
Tensor cat(std::vector<Tensor> tensors, int axis = 0);
/// Joined along a new axis (position as in `Tensor::unsqueeze`); all shapes are equal.
Tensor stack(std::vector<Tensor> tensors, int axis = 0);

}  // namespace headroom
