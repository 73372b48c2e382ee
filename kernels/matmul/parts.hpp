#pragma once
// A matmul in parts, where nothing does all of it at once: the sums of a's rows, the product, the activation or its
// derivative. On any stream. Internal to kernels/matmul.
//
//     if (matmul.has_sums()) sum_rows(stream, matmul, scratch);
//     multiply(stream, product_part(matmul));
//     if (matmul.has_inner()) finish_activation(stream, matmul);
#include <headroom/kernels/matmul/activate.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom::kernels {

/// The matmul without the other parts' work: with `inner`, the product is written there; with `derivative`, c is the
/// product alone.
inline Matmul product_part(Matmul matmul) {
    if (matmul.has_inner()) {
        if (!matmul.derivative) matmul.c = matmul.inner;
        matmul.activation = Activation::none;
    }
    matmul.derivative = false;
    matmul.inner = matmul.outer = matmul.sums = {};
    return matmul;
}

/// The views that a reduction gets: a's rows, and the sums as a column.
struct RowSums {
    View rows, sums;
    explicit RowSums(const Matmul& matmul) : rows(matmul.a), sums(matmul.sums) {
        sums.shape.push_back(1);
        sums.strides.push_back(1);
    }
};

template <class Stream>
void sum_rows(Stream& stream, const Matmul& matmul, std::byte* scratch) {
    const RowSums sums(matmul);
    sum(stream, sums.rows, 1.0, sums.sums, matmul.sums_beta, scratch);
}

/// After `product_part`.
template <class Stream>
void finish_activation(Stream& stream, const Matmul& matmul) {
    if (matmul.derivative) return activate_backward(stream, matmul.activation, matmul.inner, matmul.c, matmul.outer);
    activate(stream, matmul.activation, matmul.inner, matmul.c);
}

}  // namespace headroom::kernels
