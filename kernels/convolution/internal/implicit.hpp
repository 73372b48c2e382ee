#pragma once
// A convolution as a product on GPUs without materialised operands. An operand's element is located from its row (or
// column) and its position along the depth; each contributes an offset and a position in an image. All three passes are
// such products and share one kernel with different numbers. Plain C++, so that a dry run needs no GPU.
//
//     const ImplicitProduct product = implicit_product(problem);
//     multiply_implicitly(stream, product, scratch);    // product.scratch() bytes
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/convolution/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// An axis of a product: its indices enumerate three nested loops, the last one fastest.
struct ImplicitAxis {
    std::int64_t outer = 1, middle = 1, inner = 1;

    constexpr std::int64_t size() const { return outer * middle * inner; }
};

/// A contribution to a place in an operand, from a row or from a depth index; the element's place is the sum of both.
struct ImplicitPlace {
    std::int64_t offset = 0, y = 0, x = 0;
};

/// How a place is computed from the positions of the three loops.
struct ImplicitSteps {
    ImplicitPlace outer{}, middle{}, inner{}, start{};
};

/// An operand [lines, depth]. Its element is at offset + y / divisor * row + x / divisor * column; it is 0 if a
/// division has a remainder or a quotient lies outside the image. Without an image, it is at the offset.
struct ImplicitOperand {
    const std::byte* data = nullptr;
    std::int64_t group = 0;  ///< stride
    ImplicitSteps line{}, depth{};
    bool image = false;
    std::int64_t height = 1, width = 1, row = 0, column = 0, y_divisor = 1, x_divisor = 1;
    bool along_depth = true;  ///< neighbours in memory follow each other along the depth
};

/// c [lines of the left, lines of the right] = the sum over the depth of left * right, for each group.
struct ImplicitProduct {
    std::int64_t groups = 1;
    ImplicitAxis rows{}, columns{}, depth{};
    ImplicitOperand left{}, right{};
    Dtype operand = Dtype::f32;

    std::byte* result = nullptr;
    Dtype result_dtype = Dtype::f32, bias_dtype = Dtype::f32;
    std::int64_t result_group = 0;
    ImplicitSteps result_row{}, result_column{};  ///< only offsets
    bool along_row = true;
    const std::byte* bias = nullptr;  ///< one element per column
    std::int64_t bias_step = 0;
    bool has_bias = false, relu = false;
    float beta = 0;

    /// The depth is summed in this many parts, whose sums are added in order, because a few deep tiles would leave most
    /// of a GPU idle. Depends only on shapes, and so do the bits.
    std::int64_t parts = 1, part = 0;
    /// False: each thread sums one element, because tiles of one or a few channels would be mostly empty.
    bool tiled = true;

    constexpr std::int64_t elements() const { return rows.size() * columns.size() * groups; }
    /// One number per element and part, f32 or f64; none for a single part.
    std::size_t scratch() const {
        const std::size_t size = operand == Dtype::f64 ? sizeof(double) : sizeof(float);
        return parts == 1 ? 0 : static_cast<std::size_t>(elements() * parts) * size;
    }
};

ImplicitProduct implicit_product(const ConvolutionProblem& problem);

/// Computes with the project's own kernels; `scratch` is aligned to 8 bytes, null for 0 bytes.
void multiply_implicitly(CudaStream& stream, const ImplicitProduct& product, std::byte* scratch);

}  // namespace headroom::kernels
