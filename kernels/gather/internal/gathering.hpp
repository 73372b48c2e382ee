#pragma once
// One kernel for gather, index_select and embedding on a GPU: y[e] = x[e, index[e]] for all elements e of y. x and the
// index have strides of 0 along axes that they don't share with y. Only .cu sources include it.
//
//     Gathering gathering{.y = y, .x = x, .index = index, .position = position, .x_axis = x.strides[axis]};
//     gathering.x.strides[axis] = 0;
//     gather_elements(stream, gathering, device::index_check(stream, "gather: index", x.shape[axis]));
#include <cstdint>

#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Reads i32 or i64 indices by their offset in memory.
struct IndexReader {
    const void* data;
    bool wide;

    explicit IndexReader(const View& index) : data(index.data), wide(index.dtype == Dtype::i64) {}
    HEADROOM_DEVICE std::int64_t operator()(std::int64_t offset) const {
        return wide ? static_cast<const std::int64_t*>(data)[offset] : static_cast<const std::int32_t*>(data)[offset];
    }
};

/// All views have the shape of y.
struct Gathering {
    View y, x, index;
    /// Without data: its strides compute the position for an error.
    View position;
    /// Distance in x, in elements, per unit of the index.
    std::int64_t x_axis = 0;
};

/// If x and y have one dtype, elements are copied bit by bit, in vectors of 16 bytes if the layout allows it; otherwise
/// they are converted.
void gather_elements(CudaStream& stream, const Gathering& gathering, const device::IndexCheck& check);

/// Only reports an index out of range: for results without elements.
void check_indices(CudaStream& stream, const View& index, const device::IndexCheck& check);

/// The index of a selection, expanded to the shape of the result along `axis`.
inline View spread(const View& index, int axis, const Shape& shape) {
    View result{index.data, index.dtype, shape, {}};
    for (int i = 0; i < shape.rank(); ++i) result.strides.push_back(i == axis ? index.strides[0] : 0);
    return result;
}

}  // namespace headroom::kernels
