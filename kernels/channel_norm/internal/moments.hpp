#pragma once
// Mean and squared deviations of some elements, which can be joined with those of others (Chan, Golub and LeVeque
// 1979).
//
//     Moments<double> all{};
//     all.join({count, mean, squares});     // squares: the sum of (x - mean)^2
//     const double variance = all.squares / all.count;
#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels {

template <class C>
struct Moments {
    C count = 0, mean = 0, squares = 0;

    HEADROOM_DEVICE void join(const Moments& other) {
        if (other.count == 0) return;
        const C total = count + other.count, share = other.count / total, distance = other.mean - mean;
        squares += other.squares + distance * distance * (count * share);
        mean += distance * share;
        count = total;
    }
    /// Welford's recurrence; `share` is 1 / (the number of elements including this one). The caller counts.
    HEADROOM_DEVICE void add(C x, C share) {
        const C distance = x - mean;
        mean += distance * share;
        squares += distance * (x - mean);
    }
};

}  // namespace headroom::kernels
