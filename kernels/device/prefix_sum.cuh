#pragma once
// A prefix sum over the threads of a block. Only kernels include this.
//
//     const Shared<float> sums = block.shared<float>(block.warps());
//     float total = 0;
//     const float sum = sum_up_to(block, value, sums, total);     // value included
#include <cstdint>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/internal/wrapping_sum.hpp>

namespace headroom::kernels::device {

/// The sum of the values of all threads up to and including this one, in an order fixed by the number of threads;
/// `total` receives the sum of all. All threads call it; two `sync`. `sums` holds one element per warp.
template <class T>
HEADROOM_DEVICE T sum_up_to(Block& block, T value, Shared<T> sums, T& total) {
    T sum = value;
#pragma unroll
    for (unsigned step = 1; step < kWarp; step *= 2) {
        const T left = block.shuffle_up(kFullWarp, sum, step);
        if (block.lane() >= step) sum = wrapping_sum(sum, left);
    }
    if (block.lane() == kWarp - 1) sums[block.warp()] = sum;
    block.sync();
    total = 0;
    for (unsigned warp = 0; warp < block.warps(); ++warp) {
        const T warp_sum = sums[warp];
        if (warp == block.warp()) sum = wrapping_sum(sum, total);
        total = wrapping_sum(total, warp_sum);
    }
    block.sync();
    return sum;
}

/// The same for the threads before this one, for integers.
HEADROOM_DEVICE std::uint32_t sum_before(Block& block, std::uint32_t value, Shared<std::uint32_t> sums,
                                         std::uint32_t& total) {
    return sum_up_to(block, value, sums, total) - value;
}

}  // namespace headroom::kernels::device
