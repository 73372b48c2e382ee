#pragma once
// A sum that wraps around on integer overflow, as in PyTorch; in C++ signed overflow is undefined.
//
//     sum = wrapping_sum(sum, x[i]);
#include <concepts>
#include <type_traits>

namespace headroom::kernels {

template <class T>
constexpr T wrapping_sum(T a, T b) {
    if constexpr (std::integral<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
        return a + b;
    }
}

}  // namespace headroom::kernels
