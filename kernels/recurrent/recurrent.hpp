#pragma once
// The common part of recurrent networks: the ends of packed sequences, and the states at the start of steps. The cells
// are in lstm.hpp and gru.hpp.
//
//     check_last(stream, "lstm: length", last, 128);               // throws for a length outside of [1, 129)
//     states_before(stream, y, h0, {.last = last}, 16, states);    // of steps 16, 17, ...
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// How a layer passes through its sequences.
struct Passage {
    View last{};           ///< [B], i32 or i64: the index of each sequence's last element; rank 0: none ends early
    bool reverse = false;  ///< from each sequence's last element to the first
};

/// Checks that all indices are in [0, time), which means lengths from 1 to time. Errors: ShapeError with `what`, a
/// string literal, and the length; on CUDA the host throws when it next waits, and until then such a sequence counts as
/// empty or full.
void check_last(CpuStream& stream, const char* what, const View& last, std::int64_t time);
void check_last(CudaStream& stream, const char* what, const View& last, std::int64_t time);

/// states[i] = the state before element `first + i`, for i in [0, n): y of the element before it (`reverse`: after it),
/// or h0 if the sequence has no such element. y [T, B, H], h0 [B, H] or of rank 0 for zeros, states [n, B, H], all of
/// the same floating dtype with any strides. For elements beyond a sequence's end: h0 or y, which is 0 there.
void states_before(CpuStream& stream, const View& y, const View& h0, const Passage& passage, std::int64_t first,
                   const View& states);
void states_before(CudaStream& stream, const View& y, const View& h0, const Passage& passage, std::int64_t first,
                   const View& states);

}  // namespace headroom::kernels
