#include <headroom/kernels/matmul/epilogue.hpp>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/activation.hpp>

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

}  // namespace

template <class T>
void Epilogue<T>::finish(Size size, T* sums, std::int64_t sums_row, std::byte* y, Dtype dtype, std::int64_t row,
                         std::int64_t column) const {
    const bool plain = beta == 0 && bias == nullptr && activation == Activation::none;
    if (plain && dtype == dtype_of<T> && column == 1) {
        for (std::int64_t i = 0; i < size.rows; ++i) {
            T* to = reinterpret_cast<T*>(y) + i * row;
            for (std::int64_t j = 0; j < size.columns; ++j) to[j] = sums[i * sums_row + j];
        }
        return;
    }
    for (std::int64_t i = 0; i < size.rows; ++i) {
        std::byte* to = y + i * row * static_cast<std::int64_t>(size_of(dtype));
        finish_row(sums + i * sums_row, size.columns, to, dtype, column);
    }
}

template <class T>
void Epilogue<T>::finish_row(T* sums, std::int64_t columns, void* target, Dtype dtype, std::int64_t stride) const {
    if (beta != 0) {
        T buffer[kMaxColumns];
        const T* old = borrow(target, dtype, stride, columns, buffer);
        for (std::int64_t j = 0; j < columns; ++j) sums[j] += beta * old[j];
    }
    if (bias != nullptr) {
        for (std::int64_t j = 0; j < columns; ++j) sums[j] += bias[j];
    }
    activate(activation, sums, columns);
    store(sums, columns, target, dtype, stride);
}

template struct Epilogue<float>;
template struct Epilogue<double>;

}  // namespace headroom::kernels
