#include <headroom/kernels/pool/max_pool.hpp>

#include <algorithm>
#include <limits>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/pixels.hpp>
#include <headroom/kernels/rows.hpp>

// Numbers inside of a window are held as T beside the values, so that vectors of both have as many lanes.

namespace headroom::kernels {

void max_pool(CpuStream& stream, const View& x, const MaxPool& pool, const View& y, const View& place) {
    if (y.numel() == 0) return;
    const Rows in(pixels_of(x)), out(pixels_of(y)), places(pixels_of(place));
    const std::int64_t height = y.size(2), width = y.size(3);
    const auto run = [&]<class T>(TypeTag<T>) {
        parallel_for(stream, y.size(0) * height, 2 * std::max(x.numel(), y.numel()), [&](std::int64_t line) {
            const std::int64_t i = line % height, first_row = line / height * x.size(2);
            const PoolAxis::Span rows = pool.rows.elements(i, x.size(2));
            for (std::int64_t j = 0; j < width; ++j) {
                const PoolAxis::Span columns = pool.columns.elements(j, x.size(3));
                const std::int64_t pixel = line * width + j;
                for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                    T target[kChunk], number[kChunk], buffer[kChunk];
                    T* const largest = out.target(pixel, begin, count, target);
                    std::fill_n(largest, count, -std::numeric_limits<T>::infinity());
                    std::fill_n(number, count, static_cast<T>(rows.begin * pool.columns.kernel + columns.begin));
                    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                        for (std::int64_t s = columns.begin; s < columns.end; ++s) {
                            const std::int64_t row = first_row + pool.rows.input(i, r);
                            const T* values = in.read(row * x.size(3) + pool.columns.input(j, s), begin, count, buffer);
                            const T here = static_cast<T>(r * pool.columns.kernel + s);
#pragma omp simd
                            for (std::int64_t c = 0; c < count; ++c) {
                                const bool takes = values[c] > largest[c] || values[c] != values[c];
                                largest[c] = takes ? values[c] : largest[c];
                                number[c] = takes ? here : number[c];
                            }
                        }
                    }
                    out.write(largest, pixel, begin, count);
                    places.write(number, pixel, begin, count);
                });
            }
        });
    };
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    wide ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

void max_pool_gradient(CpuStream& stream, const View& dy, const View& place, const MaxPool& pool, float beta,
                       const View& dx) {
    if (dx.numel() == 0) return;
    const Rows in(pixels_of(dy)), places(pixels_of(place)), out(pixels_of(dx));
    const std::int64_t height = dx.size(2), width = dx.size(3);
    const auto run = [&]<class T>(TypeTag<T>) {
        parallel_for(stream, dx.size(0) * height, 2 * std::max(dx.numel(), dy.numel()), [&](std::int64_t line) {
            const std::int64_t i = line % height, first_row = line / height * dy.size(2);
            const PoolAxis::Span rows = pool.rows.windows(i, dy.size(2));
            for (std::int64_t j = 0; j < width; ++j) {
                const PoolAxis::Span columns = pool.columns.windows(j, dy.size(3));
                for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                    T target[kChunk], number[kChunk], buffer[kChunk];
                    T* const sums = out.target(line * width + j, begin, count, target, beta);
                    std::fill_n(sums, count, T{0});
                    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                        const std::int64_t row = pool.rows.element(i, r);
                        for (std::int64_t s = columns.begin; s < columns.end && row >= 0; ++s) {
                            const std::int64_t column = pool.columns.element(j, s);
                            if (column < 0) continue;
                            const std::int64_t pixel = (first_row + r) * dy.size(3) + s;
                            const T* values = in.read(pixel, begin, count, buffer);
                            const T* numbers = places.read(pixel, begin, count, number);
                            const T here = static_cast<T>(row * pool.columns.kernel + column);
#pragma omp simd
                            for (std::int64_t c = 0; c < count; ++c) sums[c] += numbers[c] == here ? values[c] : T{0};
                        }
                    }
                    out.write(sums, line * width + j, begin, count, beta);
                });
            }
        });
    };
    const bool wide = dx.dtype == Dtype::f64 || dy.dtype == Dtype::f64;
    wide ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

}  // namespace headroom::kernels
