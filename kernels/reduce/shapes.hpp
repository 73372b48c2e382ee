#pragma once
// Sizes that the sources of reduce.hpp for CPU and GPU share, from shapes and dtypes. Internal to reduce/.
#include <cstddef>

#include <headroom/kernels/reduce/engine.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline double elements_per_output(const View& x, const View& y) {
    return static_cast<double>(x.numel()) / static_cast<double>(y.numel());
}

/// The scratch of `extremum_backward`: how often each extreme value occurs, in the type in which x is computed, and
/// behind that what a GPU needs to count.
struct ExtremumScratch {
    ExtremumScratch(const View& x, const View& y, std::byte* scratch)
        : ties(contiguous_view(scratch, x.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32, y.shape)),
          bytes(static_cast<std::size_t>(y.numel()) * size_of(ties.dtype)),
          cuda_begin((bytes + 7) / 8 * 8) {}

    std::size_t cuda_bytes(const View& x, const View& y) const { return cuda_begin + reduce_scratch(x, &y, ties); }

    View ties;
    std::size_t bytes;       ///< of the counts
    std::size_t cuda_begin;  ///< where they end
};

}  // namespace headroom::kernels
