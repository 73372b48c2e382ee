#include <headroom/kernels/scan/scan.hpp>

#include <algorithm>
#include <cstdlib>

#include <headroom/kernels/internal/wrapping_sum.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kBeside = 256;         // lines whose sums advance together
constexpr std::int64_t kTaskElements = 8192;  // of a task that takes one line after the other

/// From the other end.
View reversed(View view, int axis) {
    if (view.data && view.numel() > 0) view.data = view.at((view.shape[axis] - 1) * view.strides[axis]);
    view.strides[axis] = -view.strides[axis];
    return view;
}

/// A place in an array, and the way to its next elements.
struct Place {
    std::byte* data;
    Dtype dtype;
    std::int64_t along, beside;  ///< strides, in elements: of the line, and to the next line

    std::byte* at(std::int64_t i, std::int64_t j) const {
        return data + (i * along + j * beside) * static_cast<std::int64_t>(size_of(dtype));
    }
};

template <class T>
void put(const T* values, std::int64_t count, const Place& y, std::byte* target, std::int64_t stride, float beta) {
    if (beta == 0) return store(values, count, target, y.dtype, stride);
    accumulate(values, count, beta, target, y.dtype, stride);
}

template <class T>
void scan_line(const Place& x, const Place& y, std::int64_t line, std::int64_t length, float beta) {
    T sum = 0;
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        T values[kChunk];
        load(x.at(begin, line), x.dtype, x.along, count, values);
        for (std::int64_t i = 0; i < count; ++i) values[i] = sum = wrapping_sum(sum, values[i]);
        put(values, count, y, y.at(begin, line), y.along, beta);
    });
}

template <class T>
void scan_beside(const Place& x, const Place& y, std::int64_t lines, std::int64_t length, float beta) {
    T sums[kBeside] = {}, values[kBeside];
    for (std::int64_t i = 0; i < length; ++i) {
        load(x.at(i, 0), x.dtype, x.beside, lines, values);
        for (std::int64_t j = 0; j < lines; ++j) sums[j] = wrapping_sum(sums[j], values[j]);
        put(sums, lines, y, y.at(i, 0), y.beside, beta);
    }
}

}  // namespace

CumsumPlan::CumsumPlan(const Stream& stream, const View& x, int axis, bool reverse, const View& y, float beta)
    : x_(reverse ? reversed(x, axis) : x), y_(reverse ? reversed(y, axis) : y), axis_(axis), beta_(beta) {
    const std::int64_t length = x.shape[axis];
    if (!on_cuda(stream) || x.numel() == 0) return;
    // So many parts that the GPU is busy: of lines that blocks take, or (across) of those that threads take.
    constexpr std::int64_t least = 4096, most_parts = 1024;
    const std::int64_t lines = x.numel() / length;
    const std::int64_t parts = std::clamp<std::int64_t>(most_parts / lines, 1, (length + least - 1) / least);
    part_ = ((length + parts - 1) / parts + 255) / 256 * 256;
    parts_ = (length + part_ - 1) / part_;
    if (parts_ > 1) scratch_ = static_cast<std::size_t>(parts_ * lines) * sizeof(std::int64_t);
}

void CumsumPlan::run(CpuStream& stream, std::byte*) const {
    View x = x_, y = y_;
    const std::int64_t length = x.shape[axis_];
    if (x.numel() == 0) return;
    x.shape[axis_] = y.shape[axis_] = 1;
    const Walk lines({&y, &x});
    const Place from{nullptr, x.dtype, x.strides[axis_], lines.stride(1)},
        to{nullptr, y.dtype, y.strides[axis_], lines.stride(0)};
    const bool beside = std::abs(from.beside) < std::abs(from.along) && lines.row_size() > 1;
    const std::int64_t run = beside ? kBeside : std::max<std::int64_t>(1, kTaskElements / length);
    const std::int64_t per_row = (lines.row_size() + run - 1) / run;
    parallel_for(stream, lines.rows() * per_row, x_.numel(), [&](std::int64_t task) {
        const Cursor cursor(lines, task / per_row);
        const std::int64_t first = task % per_row * run, count = std::min(run, lines.row_size() - first);
        Place x_here = from, y_here = to;
        x_here.data = cursor.at(1, first);
        y_here.data = cursor.at(0, first);
        const auto scan = [&]<class T>(TypeTag<T>) {
            if (beside) return scan_beside<T>(x_here, y_here, count, length, beta_);
            for (std::int64_t line = 0; line < count; ++line) scan_line<T>(x_here, y_here, line, length, beta_);
        };
        is_floating(x_.dtype) ? scan(TypeTag<double>{}) : scan(TypeTag<std::int64_t>{});
    });
}

}  // namespace headroom::kernels
