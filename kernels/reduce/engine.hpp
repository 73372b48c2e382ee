#pragma once
// The one loop nest behind all reductions over axes; the operations differ in what they do with one element. Internal
// to reduce/: call the functions of reduce.hpp.
//
//     reduce(stream, Reduction::sum, x, nullptr, 1.0 / n, y, beta);
//     reduce(stream, Reduction::squared_deviation, x, &mean, 1.0 / n, variance, 0);
#include <cstddef>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

enum class Reduction {
    sum,
    largest,
    smallest,
    squared_deviation,  // sum of (x - center)^2
    count_equal,        // number of x equal to center
};

/// y = beta * y + scale * (reduction of x). `center` has the shape of y.
void reduce(CpuStream& stream, Reduction reduction, const View& x, const View* center, double scale, const View& y,
            float beta);
/// `scratch` has room for `reduce_scratch` bytes of the same x, center and y.
void reduce(CudaStream& stream, Reduction reduction, const View& x, const View* center, double scale, const View& y,
            float beta, std::byte* scratch);

/// Bytes of scratch that `reduce` needs on a GPU; y may be without data.
std::size_t reduce_scratch(const View& x, const View* center, const View& y);

}  // namespace headroom::kernels
