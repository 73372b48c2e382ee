#pragma once
// The product of a matmul for the sources of this folder: batch axes are merged, and folded into the rows where
// possible. Plain numbers and addresses, so that it can be a kernel's argument.
//
//     const Problem problem = reduce(matmul);
//     if (takes_few_rows(problem)) few_rows_matmul(stream, problem);
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/shape.hpp>

namespace headroom::kernels {

struct Matmul;

enum class Activation : std::uint8_t { none, relu, gelu_tanh, gelu_erf };

/// Offsets, in elements, of one member of a batch.
struct BatchOffset {
    std::int64_t a = 0, b = 0, c = 0;
};

/// c = activation(a x b + beta * c + bias). Sizes and strides in elements.
struct Problem {
    static constexpr int kMaxBatchRank = kMaxRank - 2;

    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_row = 0, a_depth = 0;     // strides of a along m and k
    std::int64_t b_depth = 0, b_column = 0;  // of b along k and n
    std::int64_t c_row = 0, c_column = 0;
    std::array<std::int64_t, kMaxBatchRank> size{}, a_batch{}, b_batch{}, c_batch{};
    std::int64_t batch_rank = 0;

    const std::byte *a = nullptr, *b = nullptr, *bias = nullptr;
    std::byte* c = nullptr;
    std::int64_t bias_step = 0;
    Dtype operand = Dtype::f32, result = Dtype::f32, bias_dtype = Dtype::f32;
    Activation activation = Activation::none;
    bool has_bias = false;
    float beta = 0;

    constexpr std::int64_t batches() const {
        std::int64_t product = 1;
        for (int i = 0; i < kMaxBatchRank; ++i) product *= i < batch_rank ? size[static_cast<std::size_t>(i)] : 1;
        return product;
    }
    constexpr bool empty() const { return m == 0 || n == 0 || batches() == 0; }
    constexpr BatchOffset offset(std::int64_t batch) const {
        BatchOffset offset;
        for (int axis = kMaxBatchRank - 1; axis >= 0; --axis) {
            if (axis >= batch_rank) continue;
            const auto i = static_cast<std::size_t>(axis);
            const std::int64_t position = batch % size[i];
            batch /= size[i];
            offset.a += position * a_batch[i];
            offset.b += position * b_batch[i];
            offset.c += position * c_batch[i];
        }
        return offset;
    }

    /// Addresses of elements.
    const std::byte* a_at(std::int64_t element) const { return a + element * bytes(operand); }
    const std::byte* b_at(std::int64_t element) const { return b + element * bytes(operand); }
    const std::byte* bias_at(std::int64_t i) const { return bias + i * bias_step * bytes(bias_dtype); }
    std::byte* c_at(std::int64_t element) const { return c + element * bytes(result); }

  private:
    static std::int64_t bytes(Dtype dtype) { return static_cast<std::int64_t>(size_of(dtype)); }
};

/// The product alone: with `inner`, c is the activation's argument; with `derivative`, c is the product that the
/// derivative multiplies.
Problem reduce(const Matmul& matmul);

}  // namespace headroom::kernels
