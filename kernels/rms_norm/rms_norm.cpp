#include <headroom/kernels/rms_norm/rms_norm.hpp>

#include <headroom/kernels/internal/rstd.hpp>
#include <headroom/kernels/layer_norm/internal/normalize.hpp>
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
    const T rstd = rstd_of(squares / static_cast<T>(out.length()) + epsilon);
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

RmsNormGradientPlan::RmsNormGradientPlan(const Stream& stream, const View& x, const View& dy, const View* gamma,
                                         const View& rstd, const RmsNormGradients& gradients)
    : x_(x), dy_(dy), rstd_(rstd), gamma_(gamma), gradients_(gradients), chunks_(norm_chunks(stream, x)) {}

void RmsNormGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    const Rows in(x_), gradient(dy_);
    const Rows out(gradients_.x ? *gradients_.x.view : x_);
    const std::int64_t rows = in.count(), length = in.length(), parts = chunks_.parts;
    dispatch_compute(x_.dtype, [&]<class T>(TypeTag<T>) {
        T* dgamma = reinterpret_cast<T*>(scratch);
        parallel_for(stream, parts, 5 * x_.numel(), [&](std::int64_t part) {
            std::fill_n(dgamma + part * length, length, T{0});
            for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
                RowReader<T> values(in, row), upstream(gradient, row);
                row_gradient(values, upstream, gamma_, rstd_.as<T>()[row], gradients_.x ? &out : nullptr,
                             gradients_.x.beta, row, length, dgamma + part * length);
            }
        });
        if (gradients_.gamma) {
            SumPlan(stream, contiguous_view(dgamma, dtype_of<T>, {parts, length}), 1.0, *gradients_.gamma.view,
                    gradients_.gamma.beta)
                .run(stream, nullptr);
        }
    });
}

}  // namespace headroom::kernels
