#include <headroom/kernels/reduce/reduce.hpp>

#include <algorithm>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/reduce/engine.hpp>
#include <headroom/kernels/reduce/shapes.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

namespace {

/// Calls `work(row, begin, count)` for runs of at most kChunk elements of the rows of a view.
template <class Work>
void for_each_run(CpuStream& stream, const Rows& rows, Work&& work) {
    parallel_for(stream, rows.count(), rows.count() * rows.length(), [&](std::int64_t row) {
        for_each_chunk(rows.length(), [&](std::int64_t begin, std::int64_t count) { work(row, begin, count); });
    });
}

}  // namespace

std::size_t reduce_scratch(const Stream& stream, const View& x, const View& y) {
    return on_cuda(stream) ? reduce_scratch(x, nullptr, y) : 0;
}

std::size_t moments_scratch(const Stream& stream, const View& x, const View& mean, const View& variance) {
    if (!on_cuda(stream)) return 0;
    return std::max(reduce_scratch(x, nullptr, mean), reduce_scratch(x, &mean, variance));
}

void sum(CpuStream& stream, const View& x, double scale, const View& y, float beta, std::byte*) {
    reduce(stream, Reduction::sum, x, nullptr, scale, y, beta);
}

void sum_to(CpuStream& stream, const View& x, const View& y, float beta, std::byte*) {
    reduce(stream, Reduction::sum, x, nullptr, 1, y, beta);
}

void amax(CpuStream& stream, const View& x, const View& y, std::byte*) {
    reduce(stream, Reduction::largest, x, nullptr, 1, y, 0);
}

void amin(CpuStream& stream, const View& x, const View& y, std::byte*) {
    reduce(stream, Reduction::smallest, x, nullptr, 1, y, 0);
}

void moments(CpuStream& stream, const View& x, double correction, const View& mean, const View& variance, std::byte*) {
    const double count = elements_per_output(x, mean);
    reduce(stream, Reduction::sum, x, nullptr, 1 / count, mean, 0);
    reduce(stream, Reduction::squared_deviation, x, &mean, 1 / (count - correction), variance, 0);
}

void sum_backward(CpuStream& stream, const View& dy, double scale, const View& dx, float beta) {
    if (dx.numel() == 0) return;
    const Rows in(broadcast_to(dy, dx.shape)), out(dx);
    dispatch_compute(dx.dtype, [&]<class T>(TypeTag<T>) {
        const T factor = static_cast<T>(scale);
        for_each_run(stream, out, [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
            T in_buffer[kChunk], out_buffer[kChunk];
            const T* source = in.read(row, begin, count, in_buffer);
            out.add(row, begin, count, beta, out_buffer, [&](std::int64_t i) { return factor * source[i]; });
        });
    });
}

void variance_backward(CpuStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta) {
    if (dx.numel() == 0) return;
    const double count_all = elements_per_output(x, mean);
    const Rows values(x), means(broadcast_to(mean, x.shape)), gradients(broadcast_to(dvariance, x.shape)), out(dx);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        const T factor = static_cast<T>(2 / (count_all - correction));
        for_each_run(stream, out, [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
            T x_buffer[kChunk], mean_buffer[kChunk], gradient_buffer[kChunk], out_buffer[kChunk];
            const T* v = values.read(row, begin, count, x_buffer);
            const T* m = means.read(row, begin, count, mean_buffer);
            const T* g = gradients.read(row, begin, count, gradient_buffer);
            out.add(row, begin, count, beta, out_buffer, [&](std::int64_t i) { return factor * g[i] * (v[i] - m[i]); });
        });
    });
}

std::size_t extremum_backward_scratch(const Stream& stream, const View& x, const View& y) {
    const ExtremumScratch scratch(x, y, nullptr);
    return on_cuda(stream) ? scratch.cuda_bytes(x, y) : scratch.bytes;
}

void extremum_backward(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx, float beta,
                       std::byte* scratch) {
    if (dx.numel() == 0) return;
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        const View ties = ExtremumScratch(x, y, scratch).ties;
        reduce(stream, Reduction::count_equal, x, &y, 1, ties, 0);
        const Rows values(x), extrema(broadcast_to(y, x.shape)), gradients(broadcast_to(dy, x.shape)),
            counts(broadcast_to(ties, x.shape)), out(dx);
        for_each_run(stream, out, [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
            T x_buffer[kChunk], y_buffer[kChunk], gradient_buffer[kChunk], count_buffer[kChunk], out_buffer[kChunk];
            const T* v = values.read(row, begin, count, x_buffer);
            const T* e = extrema.read(row, begin, count, y_buffer);
            const T* g = gradients.read(row, begin, count, gradient_buffer);
            const T* n = counts.read(row, begin, count, count_buffer);
            out.add(row, begin, count, beta, out_buffer, [&](std::int64_t i) {
                const bool tie = (v[i] == e[i]) | ((v[i] != v[i]) & (e[i] != e[i]));
                return tie ? g[i] / n[i] : T{0};
            });
        });
    });
}

}  // namespace headroom::kernels
