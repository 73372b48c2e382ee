#pragma once
// 64 bytes of numbers that the compiler keeps in vector registers: for reductions, whose order of additions it may not
// change by itself. Operators and `condition ? a : b` work lane by lane. Not for maps: plain loops vectorise.
//
//     Lanes<float> sum{};
//     for (; i + kLanes<float> <= n; i += kLanes<float>) sum += load_lanes(x + i);
//     float total = fold_lanes(sum, [](float a, float b) { return a + b; });
#include <cstdint>
#include <cstring>

namespace headroom::kernels {

template <class T>
struct LanesOf {
    using Type [[gnu::vector_size(64)]] = T;
};

template <class T>
using Lanes = typename LanesOf<T>::Type;

template <class T>
inline constexpr std::int64_t kLanes = 64 / sizeof(T);

template <class T>
inline Lanes<T> load_lanes(const T* source) {
    Lanes<T> lanes;
    std::memcpy(&lanes, source, sizeof(lanes));
    return lanes;
}

/// All lanes combined in a fixed order: halves, quarters and so on.
template <class Vector, class Combine>
inline auto fold_lanes(const Vector& lanes, Combine&& combine) {
    using T = std::remove_cvref_t<decltype(lanes[0])>;
    T values[kLanes<T>];
    std::memcpy(values, &lanes, sizeof(values));
    for (std::int64_t width = kLanes<T> / 2; width > 0; width /= 2) {
        for (std::int64_t i = 0; i < width; ++i) values[i] = combine(values[i], values[i + width]);
    }
    return values[0];
}

}  // namespace headroom::kernels
