#include <headroom/kernels/resample/resample.hpp>

#include <algorithm>
#include <utility>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/pixels.hpp>

namespace headroom::kernels {

namespace {

template <class T>
void resample_as(CpuStream& stream, const View& x, const AxisMap& rows, const AxisMap& columns, float beta,
                 const View& y) {
    const Rows in(pixels_of(x)), out(pixels_of(y));
    const std::int64_t height = y.size(2), width = y.size(3);
    parallel_for(stream, y.size(0) * height, std::max(x.numel(), y.numel()), [&](std::int64_t line) {
        const std::int64_t i = line % height, first_row = line / height * x.size(2);
        const AxisMap::Span over_rows = rows.span<T>(i);
        Taps<T> taps;
        T target[kChunk];
        for (std::int64_t j = 0; j < width; ++j) {
            const AxisMap::Span over_columns = columns.span<T>(j);
            for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                T* const sums = out.target(line * width + j, begin, count, target, beta);
                bool first = true;
                for (std::int64_t r = over_rows.begin; r < over_rows.end; ++r) {
                    const T row_weight = rows.weight<T>(i, r);
                    if (row_weight == 0) continue;
                    for (std::int64_t s = over_columns.begin; s < over_columns.end; ++s) {
                        const T weight = row_weight * columns.weight<T>(j, s);
                        if (weight == 0) continue;
                        if (taps.count == kTaps) add_taps(taps, std::exchange(first, false), count, sums);
                        taps.add(in, (first_row + r) * x.size(3) + s, begin, count, weight);
                    }
                }
                add_taps(taps, first, count, sums);
                out.write(sums, line * width + j, begin, count, beta);
            });
        }
    });
}

}  // namespace

void resample(CpuStream& stream, const View& x, const AxisMap& rows, const AxisMap& columns, float beta,
              const View& y) {
    if (y.numel() == 0) return;
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    dispatch_compute(wide ? Dtype::f64 : Dtype::f32,
                     [&]<class T>(TypeTag<T>) { resample_as<T>(stream, x, rows, columns, beta, y); });
}

}  // namespace headroom::kernels
