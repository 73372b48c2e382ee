#pragma once
// Conversion to another dtype. The gradient is converted back; an op that can accumulate writes straight into the
// gradient of the cast's input, in the input's dtype.
//
//     Tensor half = cast(x, Dtype::bf16);
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Cast {
    static constexpr OpInfo info{.name = "cast", .precision = Precision::full, .passes_gradient = true};
    struct Attrs {
        Dtype dtype = Dtype::f32;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x in another dtype, rounded to nearest even; x itself if it already has that dtype. To bool: true unless 0. Any
/// dtypes.
Tensor cast(Tensor x, Dtype dtype);

}  // namespace headroom
