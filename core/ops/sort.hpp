#pragma once
// Sorts elements along an axis. For only the largest element see reduce.hpp.
//
//     auto [values, indices] = sort(x, -1, true);          // largest first
//     auto [best, ids] = topk(logits, 5);                  // [8, 65] -> [8, 5], twice
//     Tensor order = argsort(lengths);
//
// Indices are i64. The order is stable: equal elements keep their order, in either direction. NaN counts as larger than
// all numbers. Values are a `gather` by the indices, through which gradients flow. Any dtype. Errors: ShapeError, also
// for x without axes.
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Argsort {
    static constexpr OpInfo info{.name = "argsort"};
    struct Attrs {
        int axis = -1;
        bool descending = false;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static std::vector<Sample<Attrs>> samples();
};

/// The indices of the k largest or smallest elements.
struct TopK {
    static constexpr OpInfo info{.name = "topk"};
    struct Attrs {
        std::int64_t k = 1;
        int axis = -1;
        bool largest = true;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Sorted elements and their original positions.
struct Sorted {
    Tensor values;
    Tensor indices;
};

/// Ascending, or descending.
Tensor argsort(Tensor x, int axis = -1, bool descending = false);
Sorted sort(Tensor x, int axis = -1, bool descending = false);
/// The k largest elements, largest first, or the k smallest, smallest first. 0 <= k <= the size of the axis.
Sorted topk(Tensor x, std::int64_t k, int axis = -1, bool largest = true);

}  // namespace headroom
