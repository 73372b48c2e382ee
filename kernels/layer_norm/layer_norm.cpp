#include <headroom/kernels/layer_norm/layer_norm.hpp>

#include <headroom/kernels/internal/mean_rounding.hpp>
#include <headroom/kernels/internal/rstd.hpp>
#include <headroom/kernels/layer_norm/internal/normalize.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

namespace {

/// A vector over the last axis, or a constant in its place.
template <class T>
const T* weights(const View* weight, T otherwise, std::int64_t begin, std::int64_t count, T* buffer) {
    if (weight) return borrow(weight->at(begin * weight->strides[0]), weight->dtype, weight->strides[0], count, buffer);
    std::fill_n(buffer, count, otherwise);
    return buffer;
}

/// Adds to the mean what it is off by, and sums the squared deviations anew. Apart, so that other rows notice nothing.
template <class T>
[[gnu::noinline]] void correct(RowReader<T>& in, std::int64_t length, T& mean, T& squares) {
    T off = 0;
    squares = 0;
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        off += combine_run<Deviation>(in(begin, count), count, mean);
    });
    mean += off / static_cast<T>(length);
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        squares += combine_run<SquaredDeviation>(in(begin, count), count, mean);
    });
}

template <class T>
void normalize_row(RowReader<T>& in, const View* gamma, const View* beta, T epsilon, const Rows& out, std::int64_t row,
                   T& mean, T& rstd) {
    const std::int64_t length = out.length();
    T sum = 0, squares = 0;
    for_each_chunk(length,
                   [&](std::int64_t begin, std::int64_t count) { sum += combine_run<Sum>(in(begin, count), count); });
    mean = sum / static_cast<T>(length);
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        squares += combine_run<SquaredDeviation>(in(begin, count), count, mean);
    });
    if (is_rounding(squares, static_cast<T>(length), mean)) [[unlikely]]
        correct(in, length, mean, squares);
    rstd = rstd_of(squares / static_cast<T>(length) + epsilon);
    T gamma_buffer[kChunk], beta_buffer[kChunk], out_buffer[kChunk];
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        const T* g = weights(gamma, T{1}, begin, count, gamma_buffer);
        const T* b = weights(beta, T{0}, begin, count, beta_buffer);
        T* y = out.target(row, begin, count, out_buffer);
        const T shift = mean, scale = rstd;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) y[i] = (x[i] - shift) * scale * g[i] + b[i];
        out.write(y, row, begin, count);
    });
}

/// Sums over one row that its gradient needs, with dgamma and dbeta added to on the way.
template <class T>
struct RowSums {
    T gradient = 0, product = 0;  // of g and of g * h

    void add(const T* x, const T* dy, const T* gamma, T mean, T rstd, std::int64_t count, T* dgamma, T* dbeta) {
        T s = 0, p = 0;
#pragma omp simd reduction(+ : s, p)
        for (std::int64_t i = 0; i < count; ++i) {
            const T h = (x[i] - mean) * rstd;
            const T g = dy[i] * gamma[i];
            s += g;
            p += g * h;
            dgamma[i] += dy[i] * h;
            dbeta[i] += dy[i];
        }
        gradient += s;
        product += p;
    }
};

template <class T>
void row_gradient(RowReader<T>& in, RowReader<T>& gradient, const View* gamma, T mean, T rstd, const Rows* out,
                  float beta, std::int64_t row, std::int64_t length, T* dgamma, T* dbeta) {
    T gamma_buffer[kChunk], out_buffer[kChunk];
    RowSums<T> sums;
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        sums.add(in(begin, count), gradient(begin, count), weights(gamma, T{1}, begin, count, gamma_buffer), mean, rstd,
                 count, dgamma + begin, dbeta + begin);
    });
    if (!out) return;
    const T mean_gradient = sums.gradient / static_cast<T>(length);
    const T mean_product = sums.product / static_cast<T>(length);
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        const T* dy = gradient(begin, count);
        const T* g = weights(gamma, T{1}, begin, count, gamma_buffer);
        const auto value = [&](std::int64_t i) {
            const T h = (x[i] - mean) * rstd;
            return rstd * (dy[i] * g[i] - mean_gradient - h * mean_product);
        };
        out->template add<T>(row, begin, count, beta, out_buffer, value);
    });
}

}  // namespace

void layer_norm(CpuStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
                const View& mean, const View& rstd) {
    if (x.numel() == 0) return;
    const Rows in(x), out(y);
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), 3 * x.numel(), [&](std::int64_t row) {
            RowReader<T> reader(in, row);
            normalize_row(reader, gamma, beta, static_cast<T>(epsilon), out, row, mean.as<T>()[row], rstd.as<T>()[row]);
        });
    });
}

LayerNormGradientPlan::LayerNormGradientPlan(const Stream& stream, const View& x, const View& dy, const View* gamma,
                                             const View& mean, const View& rstd, const LayerNormGradients& gradients)
    : x_(x), dy_(dy), mean_(mean), rstd_(rstd), gamma_(gamma), gradients_(gradients), chunks_(norm_chunks(stream, x)) {}

void LayerNormGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    const Rows in(x_), gradient(dy_);
    const Rows out(gradients_.x ? *gradients_.x.view : x_);
    const std::int64_t rows = in.count(), length = in.length(), parts = chunks_.parts;
    dispatch_compute(x_.dtype, [&]<class T>(TypeTag<T>) {
        T* sums = reinterpret_cast<T*>(scratch);  // per part: dgamma, then dbeta
        parallel_for(stream, parts, 6 * x_.numel(), [&](std::int64_t part) {
            T* dgamma = sums + part * 2 * length;
            std::fill_n(dgamma, 2 * length, T{0});
            for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
                RowReader<T> values(in, row), upstream(gradient, row);
                row_gradient(values, upstream, gamma_, mean_.as<T>()[row], rstd_.as<T>()[row],
                             gradients_.x ? &out : nullptr, gradients_.x.beta, row, length, dgamma, dgamma + length);
            }
        });
        const auto add_parts = [&](T* first, const GradientTarget& to) {
            if (!to) return;
            const View all{first, dtype_of<T>, {parts, length}, {2 * length, 1}};
            SumPlan(stream, all, 1.0, *to.view, to.beta).run(stream, nullptr);
        };
        add_parts(sums, gradients_.gamma);
        add_parts(sums + length, gradients_.beta);
    });
}

}  // namespace headroom::kernels
