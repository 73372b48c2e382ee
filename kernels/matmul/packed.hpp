#pragma once
// Repeated products of few rows with one matrix, on the CPU. The matrix is packed once, in the order in which the
// register tiles read it. The steps of a recurrent network are such products: 16 rows by [512, 2048] take 142 us of
// processor time, but 205 us with matmul, because oneDNN reorders the matrix in each call. Not for a single product.
//
//     if (const std::size_t bytes = packed_bytes(stream, b, a.size(0))) {
//         pack_matrix(cpu, b, memory);                                    // of that many bytes
//         packed_product(cpu, a, memory, c, bias, false);                 // c = a b + bias, again and again
//     }
#include <cstddef>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Bytes of the packed b [k, n]. 0 if `packed_product` does not support it with this many rows: on a GPU, for halves,
/// if n is not a multiple of the vector width, for more than 128 rows.
std::size_t packed_bytes(const Stream& stream, const View& b, std::int64_t rows);
/// `packed`: 64-byte aligned. b has any strides.
void pack_matrix(CpuStream& stream, const View& b, std::byte* packed);
/// c = a b + bias, or c + a b + bias if `accumulate`. a [m, k] with any strides, c [m, n] with contiguous rows, bias
/// [n] or of rank 0, all of b's dtype. A row's bits depend only on that row and b.
void packed_product(CpuStream& stream, const View& a, const std::byte* packed, const View& c, const View& bias,
                    bool accumulate);

}  // namespace headroom::kernels
