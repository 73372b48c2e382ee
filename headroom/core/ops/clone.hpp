#pragma once
// A row-major copy, recorded: what `contiguous()` and `reshape` make where strides demand it.
//
//     Tensor y = clone(x.transpose(0, 1));
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Clone {
    static constexpr OpInfo info{.name = "clone", .precision = Precision::full};
    struct Attrs {};
    struct Saved {};
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Always a copy, in row-major order.
Tensor clone(Tensor x);

}  // namespace headroom
