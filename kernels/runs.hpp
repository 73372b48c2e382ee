#pragma once
// Reduces contiguous runs of numbers to one. The compiler may not reorder floating-point additions, nor turn
// comparisons that respect NaN into a vector maximum, so these loops keep their accumulators in explicit vectors. Not
// needed for maps, which vectorise as plain loops, or for sums of expressions, for which `#pragma omp simd reduction`
// works.
//
//     const float largest = combine_run<Largest>(x, n);
//     const float mean = combine_run<Sum>(x, n) / n;
//     const float variance = combine_run<SquaredDeviation>(x, n, mean) / n;
//
// The order depends only on n: four vectors of 64 bytes in turn, then halves, quarters and so on.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace headroom::kernels {

template <class T, std::size_t Bytes = 64>
struct LanesOf {
    using Type [[gnu::vector_size(Bytes)]] = T;
};

/// 64 bytes that the compiler keeps in vector registers. Operators and `condition ? a : b` work lane by lane.
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

// Operations on a run: an accumulator starts as `start`, `add` adds an element, `merge` combines two accumulators. Both
// work on numbers and on lanes.
struct Sum {
    static constexpr double start = 0;
    template <class V>
    static V add(V sum, V x, V) {
        return sum + x;
    }
    template <class V>
    static V merge(V a, V b) {
        return a + b;
    }
};

/// NaN if any element is NaN.
struct Largest {
    static constexpr double start = -std::numeric_limits<double>::infinity();
    template <class V>
    static V add(V largest, V x, V) {
        return ((x > largest) | (x != x)) ? x : largest;
    }
    template <class V>
    static V merge(V a, V b) {
        return add(a, b, b);
    }
};

/// The largest element that is not NaN; takes a third of the time of `Largest`.
struct LargestNumber {
    static constexpr double start = -std::numeric_limits<double>::infinity();
    template <class V>
    static V add(V largest, V x, V) {
        return x > largest ? x : largest;
    }
    template <class V>
    static V merge(V a, V b) {
        return add(a, b, b);
    }
};

/// NaN if any element is NaN.
struct Smallest {
    static constexpr double start = std::numeric_limits<double>::infinity();
    template <class V>
    static V add(V smallest, V x, V) {
        return ((x < smallest) | (x != x)) ? x : smallest;
    }
    template <class V>
    static V merge(V a, V b) {
        return add(a, b, b);
    }
};

struct Deviation : Sum {
    template <class V>
    static V add(V sum, V x, V center) {
        return sum + (x - center);
    }
};

/// The sum of (x - center)^2.
struct SquaredDeviation : Sum {
    template <class V>
    static V add(V sum, V x, V center) {
        return sum + (x - center) * (x - center);
    }
};

/// The number of elements equal to the center; NaN equals NaN.
struct CountEqual : Sum {
    template <class V>
    static V add(V count, V x, V center) {
        return ((x == center) | ((x != x) & (center != center))) ? count + 1 : count;
    }
};

/// Combines all numbers of a vector: halves, quarters and so on.
template <class Op, class T, std::size_t Bytes = 64>
inline T merge_lanes(const typename LanesOf<T, Bytes>::Type& lanes) {
    if constexpr (Bytes == 2 * sizeof(T)) {
        return Op::template merge<T>(lanes[0], lanes[1]);
    } else {
        typename LanesOf<T, Bytes / 2>::Type low, high;
        std::memcpy(&low, &lanes, Bytes / 2);
        std::memcpy(&high, reinterpret_cast<const std::byte*>(&lanes) + Bytes / 2, Bytes / 2);
        return merge_lanes<Op, T, Bytes / 2>(Op::merge(low, high));
    }
}

template <class Op, class T>
inline T combine_run(const T* x, std::int64_t count, std::type_identity_t<T> center = 0) {
    constexpr std::int64_t width = kLanes<T>;
    if (count < width) {
        T total = static_cast<T>(Op::start);
        for (std::int64_t i = 0; i < count; ++i) total = Op::add(total, x[i], center);
        return total;
    }
    const Lanes<T> centers = center - Lanes<T>{};
    const Lanes<T> start = static_cast<T>(Op::start) - Lanes<T>{};
    Lanes<T> sums[4] = {start, start, start, start};
    std::int64_t i = 0;
    for (; i + 4 * width <= count; i += 4 * width) {
        for (int k = 0; k < 4; ++k) sums[k] = Op::add(sums[k], load_lanes(x + i + k * width), centers);
    }
    for (; i + width <= count; i += width) sums[0] = Op::add(sums[0], load_lanes(x + i), centers);
    const Lanes<T> sum = Op::merge(Op::merge(sums[0], sums[1]), Op::merge(sums[2], sums[3]));
    T total = merge_lanes<Op, T>(sum);
    for (; i < count; ++i) total = Op::add(total, x[i], center);
    return total;
}

}  // namespace headroom::kernels
