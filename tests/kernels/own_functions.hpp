#pragma once
// Functions such as a user's program has. functions_cuda_test.cu compiles them for GPUs.
#include <cmath>

#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom::kernels::test {

/// factor x^3
struct Cube {
    static constexpr const char* name = "cube";
    static constexpr kernels::Saves saves = kernels::Saves::input;
    static constexpr bool integers = true;
    double factor = 1.0;
    template <class T>
    constexpr T operator()(T x) const {
        return T(factor) * x * x * x;
    }
    template <class T>
    constexpr T derivative(T x) const {
        return T(3 * factor) * x * x;
    }
};

/// sqrt(a^2 + b^2)
struct Hypotenuse {
    static constexpr const char* name = "hypotenuse";
    static constexpr kernels::Saves saves = kernels::Saves::input;
    template <class T>
    constexpr T operator()(T a, T b) const {
        return std::sqrt(a * a + b * b);
    }
    template <class T>
    constexpr T derivative_a(T a, T b) const {
        return a / std::sqrt(a * a + b * b);
    }
    template <class T>
    constexpr T derivative_b(T a, T b) const {
        return derivative_a(b, a);
    }
};

}  // namespace headroom::kernels::test
