#include <headroom/kernels/rms_norm/rms_norm.hpp>

#include <cmath>

#include <headroom/kernels/layer_norm/normalize.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

namespace {

/// gamma over the last axis, or ones in its place.
template <class T>
const T* weights(const View* gamma, std::int64_t begin, std::int64_t count, T* buffer) {
    if (gamma) return borrow(gamma->at(begin * gamma->strides[0]), gamma->dtype, gamma->strides[0], count, buffer);
    std::fill_n(buffer, count, T{1});
    return buffer;
}

template <class T>
T normalize_row(RowReader<T>& in, const View* gamma, T epsilon, const Rows& out, std::int64_t row) {
    T squares = 0;
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        squares += combine_run<SquaredDeviation>(in(begin, count), count, T{0});
    });
    const T rstd = 1 / std::sqrt(squares / static_cast<T>(out.length()) + epsilon);
    T gamma_buffer[kChunk], out_buffer[kChunk];
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        const T* g = weights(gamma, begin, count, gamma_buffer);
        T* y = out.target(row, begin, count, out_buffer);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * rstd * g[i];
        out.write(y, row, begin, count);
    });
    return rstd;
}

template <class T>
void row_gradient(RowReader<T>& in, RowReader<T>& gradient, const View* gamma, T rstd, const Rows* out, float beta,
                  std::int64_t row, std::int64_t length, T* dgamma) {
    T gamma_buffer[kChunk], out_buffer[kChunk];
    T product = 0;
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        const T* dy = gradient(begin, count);
        const T* g = weights(gamma, begin, count, gamma_buffer);
        T* sums = dgamma + begin;
        T part = 0;
#pragma omp simd reduction(+ : part)
        for (std::int64_t i = 0; i < count; ++i) {
            const T scaled = dy[i] * (x[i] * rstd);
            part += scaled * g[i];
            sums[i] += scaled;
        }
        product += part;
    });
    if (!out) return;
    const T mean_product = product / static_cast<T>(length);
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        const T* dy = gradient(begin, count);
        const T* g = weights(gamma, begin, count, gamma_buffer);
        out->template add<T>(row, begin, count, beta, out_buffer,
                             [&](std::int64_t i) { return rstd * (dy[i] * g[i] - x[i] * rstd * mean_product); });
    });
}

/// Parts into which rows are cut for the sums over rows.
std::int64_t parts_of(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 32, 1, 128); }

}  // namespace

void rms_norm(CpuStream& stream, const View& x, const View* gamma, double epsilon, const View& y, const View& rstd) {
    if (x.numel() == 0) return;
    const Rows in(x), out(y);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), 2 * x.numel(), [&](std::int64_t row) {
            RowReader<T> reader(in, row);
            rstd.as<T>()[row] = normalize_row(reader, gamma, static_cast<T>(epsilon), out, row);
        });
    });
}

std::size_t rms_norm_backward_scratch(Stream& stream, const View& x) {
    if (on_cuda(stream)) return norm_scratch(x, 1);
    const Rows rows(x);
    const std::size_t size = x.dtype == Dtype::f64 ? sizeof(double) : sizeof(float);
    return static_cast<std::size_t>(parts_of(rows.count()) * rows.length()) * size;
}

void rms_norm_backward(CpuStream& stream, const View& x, const View& dy, const View* gamma, const View& rstd,
                       const RmsNormGradients& gradients, std::byte* scratch) {
    const Rows in(x), gradient(dy);
    const Rows out(gradients.x ? *gradients.x : x);
    const std::int64_t rows = in.count(), length = in.length(), parts = parts_of(rows);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        T* dgamma = reinterpret_cast<T*>(scratch);
        parallel_for(stream, parts, 5 * x.numel(), [&](std::int64_t part) {
            std::fill_n(dgamma + part * length, length, T{0});
            for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
                RowReader<T> values(in, row), upstream(gradient, row);
                row_gradient(values, upstream, gamma, rstd.as<T>()[row], gradients.x ? &out : nullptr, gradients.x_beta,
                             row, length, dgamma + part * length);
            }
        });
        if (gradients.gamma) {
            sum_to(stream, contiguous_view(dgamma, dtype_of<T>, {parts, length}), *gradients.gamma,
                   gradients.gamma_beta);
        }
    });
}

}  // namespace headroom::kernels
