#include <headroom/kernels/matmul/internal/epilogue.hpp>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/internal/activation.hpp>

namespace headroom::kernels {

namespace {

/// One loop for each activation, so that it is vectorised.
template <class T>
void activate(Activation activation, T* values, std::int64_t count) {
    if (activation == Activation::none) return;
    with_function(activation, [&](auto f) {
        for (std::int64_t i = 0; i < count; ++i) values[i] = f(values[i]);
    });
}

template <class T>
void finish_row(const Problem& p, const T* bias, std::int64_t columns, T* sums, std::byte* y) {
    if (p.beta != 0) {
        T buffer[Patch::kMaxColumns];
        const T* old = borrow(y, p.result, p.c_column, columns, buffer);
        for (std::int64_t j = 0; j < columns; ++j) sums[j] += static_cast<T>(p.beta) * old[j];
    }
    if (p.has_bias) {
        for (std::int64_t j = 0; j < columns; ++j) sums[j] += bias[j];
    }
    activate(p.activation, sums, columns);
    store(sums, columns, y, p.result, p.c_column);
}

}  // namespace

template <class T>
void finish(const Problem& p, Patch patch, T* sums, std::int64_t sums_row, std::byte* y) {
    const bool plain = p.beta == 0 && !p.has_bias && p.activation == Activation::none;
    if (plain && p.result == dtype_of<T> && p.c_column == 1) {
        for (std::int64_t i = 0; i < patch.rows; ++i) {
            T* to = reinterpret_cast<T*>(y) + i * p.c_row;
            for (std::int64_t j = 0; j < patch.columns; ++j) to[j] = sums[i * sums_row + j];
        }
        return;
    }
    T bias[Patch::kMaxColumns];
    if (p.has_bias) load(p.bias_at(patch.first_column), p.bias_dtype, p.bias_step, patch.columns, bias);
    const std::int64_t row_bytes = p.c_row * static_cast<std::int64_t>(size_of(p.result));
    for (std::int64_t i = 0; i < patch.rows; ++i)
        finish_row(p, bias, patch.columns, sums + i * sums_row, y + i * row_bytes);
}

template void finish(const Problem&, Patch, float*, std::int64_t, std::byte*);
template void finish(const Problem&, Patch, double*, std::int64_t, std::byte*);

}  // namespace headroom::kernels
