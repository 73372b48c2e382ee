#pragma once
// What tests of gather, scatter_add and index_select share, on whichever device.
#include <cstdint>

#include <headroom/kernels/shape.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

constexpr Dtype kAllDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64,
                                Dtype::i32, Dtype::i64, Dtype::u8,   Dtype::boolean};

struct IndexCase {
    Shape x, index;
    int axis;
};

// Along the last, a middle and the first axis; an index smaller and longer than x; longer than one block.
inline const IndexCase kIndexCases[] = {{{4, 5}, {4, 3}, 1},
                                        {{4, 5}, {2, 9}, 1},
                                        {{4, 5}, {3, 5}, 0},
                                        {{4, 5}, {9, 2}, 0},
                                        {{2, 3, 4}, {2, 6, 4}, 1},
                                        {{2, 3, 4}, {2, 3, 2}, 2},
                                        {{6}, {4}, 0},
                                        {{2, 600}, {2, 700}, 1},
                                        {{3, 600}, {2, 600}, 0},
                                        {{2, 1, 3, 2}, {1, 1, 3, 5}, 3}};

/// Row-major position in `shape` of element i of `walked`, with the position along `axis` replaced.
inline std::int64_t position(const Shape& shape, const Shape& walked, std::int64_t i, int axis, std::int64_t replaced) {
    const Strides strides = contiguous_strides(shape);
    std::int64_t result = 0;
    for (int k = walked.rank() - 1; k >= 0; --k) {
        result += (k == axis ? replaced : i % walked[k]) * strides[k];
        i /= walked[k];
    }
    return result;
}

}  // namespace headroom::kernels::test
