#pragma once
// Transposes square blocks in vector registers. Used for packing.
//
//     transpose_block<float>(source, source_row, out, out_row);   // 16 x 16 with AVX-512, 8 x 8 without
#include <cstdint>
#include <utility>

#include <headroom/kernels/matmul/internal/vector.hpp>

namespace headroom::kernels {

namespace transposition {

/// Exchanges the off-diagonal halves of all 2 Step x 2 Step blocks shared by rows `a` and `b`, which are Step apart.
template <class T, int Step, int... Lane>
[[gnu::always_inline]] inline void exchange(Vector<T>& a, Vector<T>& b, std::integer_sequence<int, Lane...>) {
    constexpr int lanes = sizeof...(Lane);
    const auto first = __builtin_shufflevector(a, b, ((Lane & Step) ? lanes + Lane - Step : Lane)...);
    b = __builtin_shufflevector(a, b, ((Lane & Step) ? lanes + Lane : Lane + Step)...);
    a = first;
}

template <class T, int Step>
[[gnu::always_inline]] inline void exchange_all(Vector<T>* rows) {
    constexpr int lanes = static_cast<int>(kLanes<T>);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
        if ((i & Step) == 0) exchange<T, Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, lanes>{});
    }
    if constexpr (Step > 1) exchange_all<T, Step / 2>(rows);
}

/// Half a vector from each.
template <class T, int... Lane>
[[gnu::always_inline]] inline Vector<T> join(const T* a, const T* b, std::integer_sequence<int, Lane...>) {
    typedef T Half __attribute__((vector_size(kVectorBytes / 2), aligned(alignof(T)), may_alias));
    return __builtin_shufflevector(*reinterpret_cast<const Half*>(a), *reinterpret_cast<const Half*>(b), Lane...);
}

}  // namespace transposition

/// Exchanges rows and columns of kLanes<T> vectors.
template <class T>
[[gnu::always_inline]] inline void transpose_registers(Vector<T>* rows) {
    transposition::exchange_all<T, static_cast<int>(kLanes<T>) / 2>(rows);
}

/// out[j * out_row + i] = source[i * source_row + j] for i, j in [0, kLanes<T>). T is float or double.
template <class T>
inline void transpose_block(const T* source, std::int64_t source_row, T* out, std::int64_t out_row) {
    constexpr int lanes = static_cast<int>(kLanes<T>), half = lanes / 2;
    Vector<T> rows[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {  // halves are exchanged while loading: a load can do it, which saves a shuffle
        const T* const row = source + i * source_row;
        const T* const below = row + half * source_row;
        rows[i] = transposition::join<T>(row, below, std::make_integer_sequence<int, lanes>{});
        rows[i + half] = transposition::join<T>(row + half, below + half, std::make_integer_sequence<int, lanes>{});
    }
    transposition::exchange_all<T, half / 2>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) store_vector<T>(rows[i], out + i * out_row);
}

}  // namespace headroom::kernels
