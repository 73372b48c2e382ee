#pragma once
// One vector register of floats or doubles, as wide as the processor's, for kernels whose speed depends on staying in
// registers. Where the compiler vectorises plain loops, those are better.
//
//     Vector<float> sums = load_vector(row);
//     for (j = kLanes<float>; j < width; j += kLanes<float>) sums += load_vector(row + j);
//     float total = sum(sums);
#include <cstddef>
#include <cstdint>
#include <utility>

namespace headroom::kernels {

#if defined(__AVX512F__)
inline constexpr std::size_t kVectorBytes = 64;
#else
inline constexpr std::size_t kVectorBytes = 32;
#endif

/// Elements in a vector register.
template <class T>
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(kVectorBytes / sizeof(T));

/// `count` rounded up to whole vectors.
template <class T>
constexpr std::int64_t padded(std::int64_t count) {
    return (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

namespace detail {

template <class T>
struct VectorOf {
    typedef T Type __attribute__((vector_size(kVectorBytes)));
    typedef T Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias));
};

/// Lane i of the result is lane i + Step of x, cyclically.
template <class T, int Step, int... Lane>
[[gnu::always_inline]] inline typename VectorOf<T>::Type rotated(typename VectorOf<T>::Type x,
                                                                 std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(x, x, ((Lane + Step) % static_cast<int>(sizeof...(Lane)))...);
}

}  // namespace detail

template <class T>
using Vector = typename detail::VectorOf<T>::Type;

/// Needs no alignment.
template <class T>
[[gnu::always_inline]] inline Vector<T> load_vector(const T* from) {
    return *reinterpret_cast<const typename detail::VectorOf<T>::Unaligned*>(from);
}
template <class T>
[[gnu::always_inline]] inline void store_vector(Vector<T> value, T* to) {
    *reinterpret_cast<typename detail::VectorOf<T>::Unaligned*>(to) = value;
}

/// The sum of all lanes, halves first: always in the same order.
template <class T, int Step = static_cast<int>(kLanes<T> / 2)>
[[gnu::always_inline]] inline T sum(Vector<T> x) {
    x += detail::rotated<T, Step>(x, std::make_integer_sequence<int, static_cast<int>(kLanes<T>)>{});
    if constexpr (Step > 1) {
        return sum<T, Step / 2>(x);
    } else {
        return x[0];
    }
}

template <class T>
[[gnu::always_inline]] inline Vector<T> larger(Vector<T> x, Vector<T> y) {
    return x < y ? y : x;
}

/// The largest lane; unspecified if one is NaN.
template <class T, int Step = static_cast<int>(kLanes<T> / 2)>
[[gnu::always_inline]] inline T maximum(Vector<T> x) {
    x = larger<T>(x, detail::rotated<T, Step>(x, std::make_integer_sequence<int, static_cast<int>(kLanes<T>)>{}));
    if constexpr (Step > 1) {
        return maximum<T, Step / 2>(x);
    } else {
        return x[0];
    }
}

}  // namespace headroom::kernels
