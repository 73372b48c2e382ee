#pragma once
// How a convolution is shared out among threads that call oneDNN: images, or rows of an image with the rows that
// they are made from. Plain numbers; oneDNN is primitives.cpp's.
//
//     const Mapping mapping(problem);
//     for (const Slice& slice : slices_of(mapping, problem.images, threads)) ...
#include <cstdint>
#include <optional>
#include <vector>

#include <headroom/kernels/convolution/internal/problem.hpp>

namespace headroom::kernels {

/// A data pass at stride 1 as a forward pass with the kernel turned by 180 degrees; empty for another pass, and for
/// groups.
std::optional<ConvolutionProblem> turned(const ConvolutionProblem& problem);

/// What oneDNN is asked for: `from` becomes `to` by a convolution, or (`gradient`) by the gradient of one from `to`.
struct Mapping {
    ConvolutionArray from, to;
    std::int64_t inputs, outputs;  // channels of a group of `from` and of `to`
    ConvolutionAxis h, w;          // of the convolution
    bool gradient = false, turned = false;
    float beta;

    explicit Mapping(const ConvolutionProblem& problem);

    /// oneDNN's gradient adds to nothing: it goes to scratch, in f32, and is added from there.
    bool adds() const { return gradient && beta != 0; }
    /// Sizes of rows of `from` and `to`.
    std::int64_t from_rows() const { return gradient ? h.output : h.input; }
    std::int64_t to_rows() const { return gradient ? h.input : h.output; }
    std::int64_t from_width() const { return gradient ? w.output : w.input; }
    std::int64_t to_width() const { return gradient ? w.input : w.output; }
};

/// One thread's share: rows of `to` of some images, and the rows of `from` that belong to them.
struct Slice {
    std::int64_t image, images, to, to_rows, from, from_rows;
    ConvolutionAxis h;  // of the slice
};

/// Images for each thread, or rows of each image where that does not come out even. A slice has no rows of `from` if
/// none belong to it.
std::vector<Slice> slices_of(const Mapping& mapping, std::int64_t images, std::int64_t threads);

}  // namespace headroom::kernels
