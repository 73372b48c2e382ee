#pragma once
// Element-wise choice between two tensors by a condition; all three broadcast. To set positions to zero, a product with
// a mask may be enough.
//
//     scores = where(causal_mask(context, t, s), scores, full(context, {}, -1e9));
//     Tensor safe = where(gt(x, 0.0), log(x), zeros(context, {}));
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Where {
    static constexpr OpInfo info{.name = "where", .precision = Precision::full, .in_place = 0b110};
    struct Attrs {};
    struct Saved {
        Array condition;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& condition, const Array& a,
                                          const Array& b);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// a where the condition (bool or integers, true unless 0) holds, else b. Only the chosen tensor gets the gradient, so
/// a NaN in the other does no harm in `where` itself. Dtypes as in binary.hpp. Errors: ShapeError, DtypeError.
Tensor where(Tensor condition, Tensor a, Tensor b);
/// `value`, rounded to x's dtype, where the mask (like `where`'s condition) holds, else x; the two broadcast. A `where`
/// with a scalar: it needs one element besides the result, and may overwrite an x that nothing else needs. Errors: as
/// `where`; DtypeError if x is an integer tensor that can't hold the value.
Tensor masked_fill(Tensor x, Tensor mask, double value);

}  // namespace headroom
