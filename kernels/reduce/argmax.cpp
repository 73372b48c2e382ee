#include <limits>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

namespace {

/// The position of the extreme element of a line of x, `sign` -1 turning smallest into largest.
template <class T>
std::int64_t extreme_position(const std::byte* line, Dtype dtype, std::int64_t stride, std::int64_t length, T sign) {
    T buffer[kChunk];
    T best = -std::numeric_limits<T>::infinity();
    std::int64_t position = 0;
    for (std::int64_t begin = 0; begin < length; begin += kChunk) {
        const std::int64_t count = std::min(kChunk, length - begin);
        const auto offset = begin * stride * static_cast<std::int64_t>(size_of(dtype));
        const T* values = borrow(line + offset, dtype, stride, count, buffer);
        for (std::int64_t i = 0; i < count; ++i) {
            const T value = sign * values[i];
            if (value != value) return begin + i;
            if (value > best) {
                best = value;
                position = begin + i;
            }
        }
    }
    return position;
}

void extreme_positions(CpuStream& stream, const View& x, int axis, const View& y, int sign) {
    if (y.numel() == 0) return;
    View lines = x;  // the axis, made the last, is a line; y's elements follow the order of the lines
    View positions = y;
    lines.shape.erase(axis), lines.strides.erase(axis);
    positions.shape.erase(axis), positions.strides.erase(axis);
    lines.shape.push_back(1), lines.strides.push_back(0);
    positions.shape.push_back(1), positions.strides.push_back(0);
    const Rows in(lines), out(positions);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), x.numel(), [&](std::int64_t row) {
            const std::int64_t position =
                extreme_position(in.at(row), x.dtype, x.strides[axis], x.shape[axis], static_cast<T>(sign));
            *reinterpret_cast<std::int64_t*>(out.at(row)) = position;
        });
    });
}

}  // namespace

void argmax(CpuStream& stream, const View& x, int axis, const View& y) { extreme_positions(stream, x, axis, y, 1); }
void argmin(CpuStream& stream, const View& x, int axis, const View& y) { extreme_positions(stream, x, axis, y, -1); }

}  // namespace headroom::kernels
