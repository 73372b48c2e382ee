#pragma once
// A product of matrices stored by columns, as the documentation of cublasLtMatmul defines it, element by element in
// f64:
//     D = activation(alpha op(A) op(B) + beta C + bias)
// with the activation's argument written to a matrix of its own, or D = alpha op(A) op(B) activation'(that matrix), or
// with the sums of op(A)'s rows or of op(B)'s columns, for tests of what cuBLASLt is told. Also the heart of the
// library that stands in for cuBLASLt there. Not fast.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>

namespace headroom::kernels::test {

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

enum class Curve { none, relu, gelu, gelu_slope };

inline double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
inline double gelu_slope(double x) {
    const double scale = std::sqrt(2 / M_PI), t = std::tanh(scale * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}

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
    void* inner = nullptr;  // of D's dtype: written where the curve is an activation, read where it is a slope
    std::int64_t inner_ld = 0, inner_batch = 0;
    void *a_sums = nullptr, *b_sums = nullptr;  // of D's dtype, one per row and per column of D

    void multiply() const {
        for (std::int64_t batch = 0; batch < batches; ++batch) {
            for (std::int64_t j = 0; j < columns; ++j) {
                for (std::int64_t i = 0; i < rows; ++i) finish(batch, i, j);
            }
        }
        for (std::int64_t i = 0; a_sums != nullptr && i < rows; ++i) {
            double sum = 0;
            for (std::int64_t p = 0; p < depth; ++p) sum += element(a, operand, at_a(i, p));
            set_element(a_sums, result, i, sum);
        }
        for (std::int64_t j = 0; b_sums != nullptr && j < columns; ++j) {
            double sum = 0;
            for (std::int64_t p = 0; p < depth; ++p) sum += element(b, operand, at_b(p, j));
            set_element(b_sums, result, j, sum);
        }
    }

  private:
    std::int64_t at_a(std::int64_t i, std::int64_t p) const { return transpose_a ? p + i * lda : i + p * lda; }
    std::int64_t at_b(std::int64_t p, std::int64_t j) const { return transpose_b ? j + p * ldb : p + j * ldb; }

    void finish(std::int64_t batch, std::int64_t i, std::int64_t j) const {
        double sum = 0;
        for (std::int64_t p = 0; p < depth; ++p)
            sum +=
                element(a, operand, batch * a_batch + at_a(i, p)) * element(b, operand, batch * b_batch + at_b(p, j));
        const std::int64_t at = batch * d_batch + i + j * ldd;
        sum *= alpha;
        if (beta != 0) sum += beta * element(c, result, at);
        if (bias != nullptr) sum += element(bias, result, i);
        if (curve == Curve::relu) sum = sum > 0 ? sum : 0;
        const std::int64_t at_inner = batch * inner_batch + i + j * inner_ld;
        if (inner != nullptr && curve != Curve::gelu_slope) set_element(inner, result, at_inner, sum);
        if (curve == Curve::gelu) sum = gelu(sum);
        if (curve == Curve::gelu_slope) sum *= gelu_slope(element(inner, result, at_inner));
        set_element(d, result, at, sum);
    }
};

}  // namespace headroom::kernels::test
