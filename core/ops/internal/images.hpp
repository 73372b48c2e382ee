#pragma once
// Common parts of ops on images [N, C, H, W].
//
//     check_images("avg_pool2d", x);
//     const ImageMaps maps{rows, columns};
//     return {{}, resampled(exec, x, maps)};
//     give_resampled(exec, dy, maps, sink);           // in backward
#include <headroom/core/exec.hpp>
#include <headroom/core/grad_sink.hpp>
#include <headroom/kernels/resample/axis_map.hpp>

namespace headroom::ops {

/// Errors: Error if x is undefined, DtypeError unless it is floating, ShapeError unless it is [N, C, H, W] with
/// elements in H and W.
void check_images(const char* op, const Array& x);

/// How the rows and columns of a result are computed.
struct ImageMaps {
    kernels::AxisMap rows, columns;
};

Array resampled(Exec& exec, const Array& x, const ImageMaps& maps);
/// Writes the gradient of input 0.
void give_resampled(Exec& exec, const Array& dy, ImageMaps maps, GradSink& sink);

}  // namespace headroom::ops
