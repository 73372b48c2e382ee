#pragma once
// Lower and upper triangles of matrices. For attention's causal mask see fill/.
//
//     triangle(stream, x, {.lower = true, .diagonal = 0}, 0.0f, y);      // x [8, 64, 64]
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// The elements [i, j] on the diagonal j = i + diagonal and on one side of it.
struct Triangle {
    bool lower = true;
    std::int64_t diagonal = 0;
    constexpr bool has(std::int64_t i, std::int64_t j) const { return lower ? j <= i + diagonal : j >= i + diagonal; }
};

/// y = beta y + (x inside the triangle, 0 outside) for the matrices of the last two axes. Any dtype and strides, one
/// shape. y may be x's own memory.
void triangle(CpuStream& stream, const View& x, const Triangle& part, float beta, const View& y);
void triangle(CudaStream& stream, const View& x, const Triangle& part, float beta, const View& y);

}  // namespace headroom::kernels
