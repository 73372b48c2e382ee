#pragma once
// A convolution as a product for GPUs, without its operands being written down: what an element of an operand is, is
// found from its row (or column) and its place along the depth, each of which adds to an offset and to a position in
// an image. All three passes are such products; their numbers differ, not their kernel. Plain C++, so that a dry run
// needs no GPU.
//
//     const ImplicitProduct product = implicit_product(problem);
//     multiply_implicitly(stream, product, scratch);    // product.scratch() bytes
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/convolution/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// An axis of a product: its numbers count three nested loops, of which the last one runs fastest.
struct ImplicitAxis {
    std::int64_t outer = 1, middle = 1, inner = 1;

    constexpr std::int64_t size() const { return outer * middle * inner; }
};

/// A place in an operand: of a row, or of a number along the depth; the element's is their sum.
struct ImplicitPlace {
    std::int64_t offset = 0, y = 0, x = 0;
};

/// How a place follows from the three loops' positions.
struct ImplicitSteps {
    ImplicitPlace outer{}, middle{}, inner{}, start{};
};

/// An operand [lines, depth]. Its element is at offset + y / divisor * row + x / divisor * column; 0 where a division
/// leaves a rest, or a quotient is outside of the image. Without an image, at the offset.
struct ImplicitOperand {
    const std::byte* data = nullptr;
    std::int64_t group = 0;  ///< stride
    ImplicitSteps line{}, depth{};
    bool image = false;
    std::int64_t height = 1, width = 1, row = 0, column = 0, y_divisor = 1, x_divisor = 1;
    bool along_depth = true;  ///< elements that lie side by side follow each other along the depth
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
    ImplicitSteps result_row{}, result_column{};  ///< offsets alone
    bool along_row = true;
    const std::byte* bias = nullptr;  ///< of a column
    std::int64_t bias_step = 0;
    bool has_bias = false, relu = false;
    float beta = 0;

    /// The depth is summed in so many parts, whose sums are added in order: few tiles that are deep would leave most of
    /// a GPU idle. A function of shapes alone, and so are the bits.
    std::int64_t parts = 1, part = 0;
    bool tiled = true;  ///< else each thread sums an element: tiles of one or a few channels would be empty

    constexpr std::int64_t elements() const { return rows.size() * columns.size() * groups; }
    /// One number for each element and part, f32 or f64; none for one part.
    std::size_t scratch() const {
        const std::size_t size = operand == Dtype::f64 ? sizeof(double) : sizeof(float);
        return parts == 1 ? 0 : static_cast<std::size_t>(elements() * parts) * size;
    }
};

ImplicitProduct implicit_product(const ConvolutionProblem& problem);

/// By kernels of our own; `scratch` is aligned to 8 bytes, null for 0 bytes.
void multiply_implicitly(CudaStream& stream, const ImplicitProduct& product, std::byte* scratch);

}  // namespace headroom::kernels
