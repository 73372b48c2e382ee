#include <headroom/kernels/softmax/softmax.hpp>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/softmax/internal/log_sum_exp.hpp>

namespace headroom::kernels {

namespace {

// What exp costs, in the operations that `parallel_for` counts.
constexpr std::int64_t kExpCost = 4;

/// A row that fits in one chunk: its exponentials are kept instead of computed twice.
template <class T>
void softmax_short(const T* x, std::int64_t count, T* y) {
    const T largest = combine_run<LargestNumber>(x, count);  // a NaN makes the sum NaN
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) {
        const T power = math::exp(x[i] - largest);
        y[i] = power;
        sum += power;
    }
    const T factor = 1 / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] *= factor;
}

/// y = f(x) chunk by chunk.
template <class T, class Map>
void map_row(RowReader<T>& in, const Rows& out, std::int64_t row, Map&& map) {
    T buffer[kChunk];
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        T* y = out.target(row, begin, count, buffer);
        map(x, count, y);
        out.write(y, row, begin, count);
    });
}

/// dx = beta * dx + f(y, dy) chunk by chunk.
template <class T, class Map>
void map_gradient(RowReader<T>& in, RowReader<T>& gradient, const Rows& out, float beta, std::int64_t row, Map&& map) {
    T buffer[kChunk];
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        const T* y = in(begin, count);
        const T* dy = gradient(begin, count);
        out.add(row, begin, count, beta, buffer, [&](std::int64_t i) { return map(y[i], dy[i]); });
    });
}

}  // namespace

void softmax(CpuStream& stream, const View& x, const View& y) {
    if (x.numel() == 0) return;
    const Rows in(x), out(y);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), kExpCost * x.numel(), [&](std::int64_t i) {
            RowReader<T> row(in, i);
            if (in.length() <= kChunk) {
                map_row(row, out, i, softmax_short<T>);
                return;
            }
            const auto [largest, sum] = sum_exp(row, in.length());
            map_row(row, out, i, [shift = largest, factor = 1 / sum](const T* v, std::int64_t count, T* target) {
#pragma omp simd
                for (std::int64_t j = 0; j < count; ++j) target[j] = math::exp(v[j] - shift) * factor;
            });
        });
    });
}

void log_softmax(CpuStream& stream, const View& x, const View& y) {
    if (x.numel() == 0) return;
    const Rows in(x), out(y);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), kExpCost * x.numel(), [&](std::int64_t i) {
            RowReader<T> row(in, i);
            const auto [largest, sum] = sum_exp(row, in.length());
            map_row(row, out, i, [shift = largest, rest = math::log(sum)](const T* v, std::int64_t count, T* target) {
#pragma omp simd
                for (std::int64_t j = 0; j < count; ++j) target[j] = (v[j] - shift) - rest;
            });
        });
    });
}

void softmax_backward(CpuStream& stream, const View& y, const View& dy, const View& dx, float beta) {
    if (dx.numel() == 0) return;
    const Rows in(y), gradients(dy), out(dx);
    dispatch_compute(y.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), 2 * dx.numel(), [&](std::int64_t i) {
            RowReader<T> row(in, i), gradient(gradients, i);
            T sum = 0;
            for_each_chunk(in.length(), [&](std::int64_t begin, std::int64_t count) {
                const T* v = row(begin, count);
                const T* g = gradient(begin, count);
                T part = 0;
#pragma omp simd reduction(+ : part)
                for (std::int64_t j = 0; j < count; ++j) part += v[j] * g[j];
                sum += part;
            });
            map_gradient(row, gradient, out, beta, i, [sum](T v, T g) { return v * (g - sum); });
        });
    });
}

void log_softmax_backward(CpuStream& stream, const View& y, const View& dy, const View& dx, float beta) {
    if (dx.numel() == 0) return;
    const Rows in(y), gradients(dy), out(dx);
    dispatch_compute(y.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), kExpCost * dx.numel(), [&](std::int64_t i) {
            RowReader<T> row(in, i), gradient(gradients, i);
            T sum = 0;
            for_each_chunk(in.length(), [&](std::int64_t begin, std::int64_t count) {
                sum += combine_run<Sum>(gradient(begin, count), count);
            });
            map_gradient(row, gradient, out, beta, i, [sum](T v, T g) { return g - math::exp(v) * sum; });
        });
    });
}

}  // namespace headroom::kernels
