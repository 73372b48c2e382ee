#pragma once
// Products of few rows with one matrix, many times, on the CPU: the matrix is rewritten once, in the order in which the
// registers' tiles read it. The steps of a recurrent network are such products; 16 rows by [512, 2048] take 142 us of a
// processor where matmul takes 205, since oneDNN orders the matrix anew in each call. Not for a single product.
//
//     if (const std::size_t bytes = packed_bytes(stream, b, a.size(0))) {
//         pack_matrix(cpu, b, memory);                                    // of that many bytes
//         packed_product(cpu, a, memory, c, bias, false);                 // c = a b + bias, again and again
//     }
#include <cstddef>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Bytes of b [k, n] packed; 0 where `packed_product` does not take it with so many rows: on a GPU, for halves, for n
/// that fill no whole vectors, for more than 128 rows.
std::size_t packed_bytes(const Stream& stream, const View& b, std::int64_t rows);
/// `packed`: 64-byte aligned. b has any strides.
void pack_matrix(CpuStream& stream, const View& b, std::byte* packed);
/// c = a b + bias, or, to `accumulate`, c + a b + bias. a [m, k] with any strides, c [m, n] with contiguous rows, bias
/// [n] or of rank 0, all of b's dtype. A row's bits depend on nothing but that row and b.
void packed_product(CpuStream& stream, const View& a, const std::byte* packed, const View& c, const View& bias,
                    bool accumulate);

}  // namespace headroom::kernels
