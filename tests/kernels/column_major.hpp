#pragma once
// A product of matrices stored by columns, as the documentation of cublasLtMatmul defines it, element by element in
// f64:
//     D = activation(alpha op(A) op(B) + beta C + bias)
// for tests of what cuBLASLt is told. Also the heart of the library that stands in for cuBLASLt there. Not fast.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>

namespace headroom::test {

inline double element(const void* data, Dtype dtype, std::int64_t index) {
    switch (dtype) {
        case Dtype::f16:
            return to_float(static_cast<const f16*>(data)[index]);
        case Dtype::bf16:
            return to_float(static_cast<const bf16*>(data)[index]);
        case Dtype::f64:
            return static_cast<const double*>(data)[index];
        default:
            return static_cast<const float*>(data)[index];
    }
}

inline void set_element(void* data, Dtype dtype, std::int64_t index, double value) {
    switch (dtype) {
        case Dtype::f16:
            static_cast<f16*>(data)[index] = f16_from_float(static_cast<float>(value));
            return;
        case Dtype::bf16:
            static_cast<bf16*>(data)[index] = bf16_from_float(static_cast<float>(value));
            return;
        case Dtype::f64:
            static_cast<double*>(data)[index] = value;
            return;
        default:
            static_cast<float*>(data)[index] = static_cast<float>(value);
    }
}

enum class Curve { none, relu, gelu };

struct ColumnMajor {
    std::int64_t rows, columns, depth;  // of op(A) op(B): rows x depth, depth x columns
    bool transpose_a, transpose_b;
    std::int64_t lda, ldb, ldd;
    std::int64_t batches, a_batch, b_batch, d_batch;
    Dtype operand, result;
    Curve curve;
    double alpha, beta;
    const void *a, *b, *c, *bias;  // c lies as d does; null bias: none
    void* d;

    void multiply() const {
        for (std::int64_t batch = 0; batch < batches; ++batch) {
            for (std::int64_t j = 0; j < columns; ++j) {
                for (std::int64_t i = 0; i < rows; ++i) finish(batch, i, j);
            }
        }
    }

  private:
    void finish(std::int64_t batch, std::int64_t i, std::int64_t j) const {
        double sum = 0;
        for (std::int64_t p = 0; p < depth; ++p) {
            const std::int64_t at_a = batch * a_batch + (transpose_a ? p + i * lda : i + p * lda);
            const std::int64_t at_b = batch * b_batch + (transpose_b ? j + p * ldb : p + j * ldb);
            sum += element(a, operand, at_a) * element(b, operand, at_b);
        }
        const std::int64_t at = batch * d_batch + i + j * ldd;
        sum *= alpha;
        if (beta != 0) sum += beta * element(c, result, at);
        if (bias != nullptr) sum += element(bias, result, i);
        if (curve == Curve::relu) sum = sum > 0 ? sum : 0;
        if (curve == Curve::gelu)
            sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
        set_element(d, result, at, sum);
    }
};

}  // namespace headroom::test
