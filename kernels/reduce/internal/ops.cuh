#pragma once
// The operations of CUDA reductions, on an element and on two results. The CPU's are in runs.hpp.
//
//     T sum = T(op.start);
//     sum = op.add(sum, x, center);                 // T: float or double
//     double total = op.merge(a, b);
#include <limits>

#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/math.hpp>

namespace headroom::kernels {

struct SumOnDevice {
    static constexpr double start = 0;
    template <class T>
    HEADROOM_DEVICE T add(T sum, T x, T) const {
        return sum + x;
    }
    template <class T>
    HEADROOM_DEVICE T merge(T a, T b) const {
        return a + b;
    }
};

/// The sum of (x - center)^2.
struct SquaredDeviationOnDevice : SumOnDevice {
    template <class T>
    HEADROOM_DEVICE T add(T sum, T x, T center) const {
        return sum + (x - center) * (x - center);
    }
};

/// The number of elements equal to the center; NaN equals NaN.
struct CountEqualOnDevice : SumOnDevice {
    template <class T>
    HEADROOM_DEVICE T add(T count, T x, T center) const {
        return x == center || (x != x && center != center) ? count + T(1) : count;
    }
};

/// The sum of e^(x - center), or of e^x for a center that is not finite.
struct ExpSumOnDevice : SumOnDevice {
    template <class T>
    HEADROOM_DEVICE T add(T sum, T x, T center) const {
        return sum + math::exp(x - (center - center == T(0) ? center : T(0)));
    }
};

struct ProductOnDevice {
    static constexpr double start = 1;
    bool skips_zeros = false;

    template <class T>
    HEADROOM_DEVICE T add(T product, T x, T) const {
        return skips_zeros && x == T(0) ? product : product * x;
    }
    template <class T>
    HEADROOM_DEVICE T merge(T a, T b) const {
        return a * b;
    }
};

/// The largest of sign * x; NaN if any element is NaN.
struct ExtremeOnDevice {
    static constexpr double start = -std::numeric_limits<double>::infinity();
    float sign = 1;

    template <class T>
    HEADROOM_DEVICE T add(T largest, T x, T) const {
        const T value = static_cast<T>(sign) * x;
        return value > largest || value != value ? value : largest;
    }
    template <class T>
    HEADROOM_DEVICE T merge(T a, T b) const {
        return b > a || b != b ? b : a;
    }
};

}  // namespace headroom::kernels
