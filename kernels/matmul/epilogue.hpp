#pragma once
// The steps after a product, done while it is still in cache: accumulation, bias, activation, rounding to the output's
// dtype. Internal to kernels/matmul.
//
//     const Epilogue<float> epilogue{beta, activation, has_bias ? bias_row : nullptr};
//     epilogue.finish({rows, columns}, sums, 64, c, Dtype::bf16, c_row, 1);
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

template <class T>
struct Epilogue {
    T beta;
    Activation activation;
    const T* bias;  // of the columns at hand; null for none

    struct Size {
        std::int64_t rows;
        std::int64_t columns;  // at most kMaxColumns
    };
    /// y[i, j] = activation(sums[i, j] + beta * y[i, j] + bias[j]), where rows of sums are `sums_row` apart and
    /// those of y `row`, its columns `column`. Overwrites sums.
    void finish(Size size, T* sums, std::int64_t sums_row, std::byte* y, Dtype dtype, std::int64_t row,
                std::int64_t column) const;

    static constexpr std::int64_t kMaxColumns = 64;

  private:
    void finish_row(T* sums, std::int64_t columns, void* target, Dtype dtype, std::int64_t stride) const;
};

extern template struct Epilogue<float>;
extern template struct Epilogue<double>;

}  // namespace headroom::kernels
