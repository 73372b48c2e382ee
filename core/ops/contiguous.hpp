#pragma once
// A row-major copy, recorded: what `reshape` falls back to when strides can't express the shape.
//
//     Tensor y = contiguous(x.transpose(0, 1));
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Contiguous {
    static constexpr OpInfo info{.name = "contiguous", .precision = Precision::full};
    struct Attrs {};
    struct Saved {};
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Always a copy, in row-major order.
Tensor contiguous(Tensor x);

}  // namespace headroom
