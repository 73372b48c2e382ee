#pragma once
// How a convolution is distributed over threads that call oneDNN: by images, or by rows of an image with the input rows
// that they need. Plain numbers; primitives.cpp contains the oneDNN part.
//
//     const Mapping mapping(problem);
//     for (const Slice& slice : slices_of(mapping, problem.images, threads)) ...
#include <cstdint>
#include <optional>
#include <vector>

#include <headroom/kernels/convolution/internal/problem.hpp>

namespace headroom::kernels {

/// A data pass at stride 1 as a forward pass with the kernel rotated by 180 degrees; empty for another pass, and for
/// groups.
std::optional<ConvolutionProblem> turned(const ConvolutionProblem& problem);

/// The operation for oneDNN: `from` becomes `to` by a convolution or, if `gradient`, by the gradient of one from `to`.
struct Mapping {
    ConvolutionArray from, to;
    std::int64_t inputs, outputs;  // channels per group of `from` and of `to`
    ConvolutionAxis h, w;          // of the convolution
    bool gradient = false, turned = false;
    float beta;

    explicit Mapping(const ConvolutionProblem& problem);

    /// oneDNN's gradient can't add: it is written to scratch, in f32, and added from there.
    bool adds() const { return gradient && beta != 0; }
    /// Numbers of rows of `from` and `to`.
    std::int64_t from_rows() const { return gradient ? h.output : h.input; }
    std::int64_t to_rows() const { return gradient ? h.input : h.output; }
    std::int64_t from_width() const { return gradient ? w.output : w.input; }
    std::int64_t to_width() const { return gradient ? w.input : w.output; }
};

/// One thread's share: rows of `to` of some images, and the rows of `from` that they need.
struct Slice {
    std::int64_t image, images, to, to_rows, from, from_rows;
    ConvolutionAxis h;  // of the slice
};

/// Whole images per thread, or rows of each image if the images can't be divided evenly. A slice that needs no rows of
/// `from` has none.
std::vector<Slice> slices_of(const Mapping& mapping, std::int64_t images, std::int64_t threads);

}  // namespace headroom::kernels
