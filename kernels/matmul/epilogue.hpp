#pragma once
// What follows a product while it is still in cache: scaling, accumulation, bias, activation, rounding to the output's
// dtype. Internal to kernels/matmul.
//
//     Epilogue<float> epilogue{alpha, beta, activation, has_bias ? bias_row : nullptr};
//     epilogue.finish(sums, columns, c, Dtype::bf16, 1);
#include <cstdint>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

template <class T>
struct Epilogue {
    T alpha;
    T beta;
    Activation activation;
    const T* bias;  // of the columns at hand; null for none

    /// target[j * stride] = activation(alpha * sums[j] + beta * target[j * stride] + bias[j]) for j in [0, columns),
    /// with at most kMaxColumns columns; overwrites sums.
    void finish(T* sums, std::int64_t columns, void* target, Dtype dtype, std::int64_t stride) const;

    static constexpr std::int64_t kMaxColumns = 64;
};

extern template struct Epilogue<float>;
extern template struct Epilogue<double>;

}  // namespace headroom::kernels
