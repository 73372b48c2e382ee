#pragma once
// `sum_exp` of log_sum_exp.hpp for a CUDA thread, vector by vector: the sum is rescaled if a larger element appears.
//
//     OnlineSum<float> sum;
//     for (...) sum.add(row.load(block, v, -INFINITY));
//     const float largest = team.largest(sum.largest);
//     const float lse = largest + std::log(team.sum(sum.sum_for(largest)));
#include <cmath>
#include <limits>

#include <headroom/kernels/device/row_access.hpp>

namespace headroom::kernels {

/// The sum of exp(x - largest). 0 if all elements are -infinity; NaN with NaN or +infinity.
template <class C>
struct OnlineSum {
    static constexpr C kNothing = -std::numeric_limits<C>::infinity();
    C largest = kNothing;
    C sum = 0;

    /// -infinity changes nothing.
    template <int N, class Vectors>
    HEADROOM_DEVICE void add(const Vectors (&values)[N]) {
        C most = largest;
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
            for (const C x : values[i].at) most = std::fmax(most, x);
        if (most > largest) {  // before any number was seen, the sum is 0 or NaN, and stays so
            sum *= std::exp(largest - most);
            largest = most;
        }
        const C shift = largest == kNothing ? C{0} : largest;
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
            for (const C x : values[i].at) sum += std::exp(x - shift);
    }
    template <class Vectors>
    HEADROOM_DEVICE void add(const Vectors& values) {
        const Vectors one[1] = {values};
        add(one);
    }

    /// The sum relative to `most`, for a total whose largest element is `most`.
    HEADROOM_DEVICE C sum_for(C most) const { return largest == most ? sum : sum * std::exp(largest - most); }
};

}  // namespace headroom::kernels
