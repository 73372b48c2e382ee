#pragma once
// Elements and slices by index along an axis. For rows of a table (tokens) see embedding.hpp, whose gradient is faster;
// for one position `Tensor::select` is free.
//
//     Tensor chosen = gather(logits, -1, ids.unsqueeze(-1));     // [8, 65], [8, 1] -> [8, 1]
//     Tensor counts = scatter_add(zeros(context, {10}), 0, ids, ones(context, {64}));
//     Tensor rows = index_select(x, 0, order);                   // x [64, 3], order [64]
//
// Indices are i32 or i64 and not negative. Errors: ShapeError, also for an index out of range, with its value and
// position; DtypeError.
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct IndexAttrs {
    int axis = 0;
};

struct Gather {
    static constexpr OpInfo info{.name = "gather"};
    using Attrs = IndexAttrs;
    struct Saved {
        Array index;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& index);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

struct ScatterAdd {
    static constexpr OpInfo info{.name = "scatter_add"};
    using Attrs = IndexAttrs;
    struct Saved {
        Array index;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& index,
                                          const Array& source);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

struct IndexSelect {
    static constexpr OpInfo info{.name = "index_select"};
    using Attrs = IndexAttrs;
    struct Saved {
        Array index;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& index);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// y[i][j][k] = x[i][index[i][j][k]][k] for axis 1, and so on. The index has x's rank and the shape of the result; on
/// the other axes it may not exceed x. Any dtype.
Tensor gather(Tensor x, int axis, Tensor index);
/// x with y[i][index[i][j][k]][k] += source[i][j][k]. `index` and `source` have the same shape, which may not exceed
/// x's on the other axes. Floating dtypes.
Tensor scatter_add(Tensor x, int axis, Tensor index, Tensor source);
/// Slices of x along an axis, in the order of the 1-D `index`. Any dtype.
Tensor index_select(Tensor x, int axis, Tensor index);

}  // namespace headroom
