#include <headroom/kernels/reduce/reduce.hpp>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/reduce/internal/shapes.hpp>
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

MomentsPlan::MomentsPlan(const Stream& stream, const View& x, double correction, const View& mean, const View& variance)
    : mean_(stream, Reduction::sum, x, nullptr, 1 / elements_per_output(x, mean), mean, 0),
      variance_(stream, Reduction::squared_deviation, x, &mean, 1 / degrees_of_freedom(x, mean, correction), variance,
                0) {}

void sum_backward(CpuStream& stream, const View& dy, double scale, const View& dx, float beta) {
    if (dx.numel() == 0) return;
    const Rows in(in_order_of(broadcast_to(dy, dx.shape), dx.strides)), out(in_order_of(dx, dx.strides));
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
    const double freedom = degrees_of_freedom(x, mean, correction);
    const auto rows = [&](const View& view) { return Rows(in_order_of(view, dx.strides)); };
    const Rows values = rows(x), means = rows(broadcast_to(mean, x.shape));
    const Rows gradients = rows(broadcast_to(dvariance, x.shape)), out = rows(dx);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        const T factor = static_cast<T>(2 / freedom);
        for_each_run(stream, out, [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
            T x_buffer[kChunk], mean_buffer[kChunk], gradient_buffer[kChunk], out_buffer[kChunk];
            const T* v = values.read(row, begin, count, x_buffer);
            const T* m = means.read(row, begin, count, mean_buffer);
            const T* g = gradients.read(row, begin, count, gradient_buffer);
            out.add(row, begin, count, beta, out_buffer, [&](std::int64_t i) { return factor * g[i] * (v[i] - m[i]); });
        });
    });
}

ExtremumGradientPlan::ExtremumGradientPlan(const Stream& stream, const View& x, const View& y, const View& dy,
                                           const View& dx, float beta)
    : x_(x),
      y_(y),
      dy_(dy),
      dx_(dx),
      beta_(beta),
      ties_(contiguous_view(nullptr, x.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32, y.shape)),
      count_begin_((static_cast<std::size_t>(y.numel()) * size_of(ties_.dtype) + 7) / 8 * 8),
      count_(stream, Reduction::count_equal, x, &y, 1, ties_, 0) {}

void ExtremumGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    if (dx_.numel() == 0) return;
    const View ties = count_ties(stream, scratch);
    dispatch_compute(x_.dtype, [&]<class T>(TypeTag<T>) {
        const auto rows = [&](const View& view) { return Rows(in_order_of(view, dx_.strides)); };
        const auto stretched = [&](const View& view) { return rows(broadcast_to(view, x_.shape)); };
        const Rows values = rows(x_), extrema = stretched(y_), gradients = stretched(dy_), counts = stretched(ties);
        const Rows out = rows(dx_);
        for_each_run(stream, out, [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
            T x_buffer[kChunk], y_buffer[kChunk], gradient_buffer[kChunk], count_buffer[kChunk], out_buffer[kChunk];
            const T* v = values.read(row, begin, count, x_buffer);
            const T* e = extrema.read(row, begin, count, y_buffer);
            const T* g = gradients.read(row, begin, count, gradient_buffer);
            const T* n = counts.read(row, begin, count, count_buffer);
            out.add(row, begin, count, beta_, out_buffer, [&](std::int64_t i) {
                const bool tie = (v[i] == e[i]) | ((v[i] != v[i]) & (e[i] != e[i]));
                return tie ? g[i] / n[i] : T{0};
            });
        });
    });
}

}  // namespace headroom::kernels
