#pragma once
// A convolution as plain numbers and addresses, for the sources of this folder and as a kernel's argument.
//
//     const ConvolutionProblem p = reduce(convolution);
//     p.h.at(row, tap);    // the row of x that a tap of the kernel meets at a row of y; may lie in the padding
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/matmul/internal/problem.hpp>

namespace headroom::kernels {

struct Convolution;

/// The array that a convolution writes.
enum class ConvolutionPass : std::uint8_t { forward, data, weight };

/// Height or width.
struct ConvolutionAxis {
    std::int64_t input = 1, output = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;

    constexpr std::int64_t at(std::int64_t position, std::int64_t tap) const {
        return position * stride + tap * dilation - padding;
    }
    /// Elements covered by a whole kernel.
    constexpr std::int64_t covered() const { return dilation * (kernel - 1) + 1; }
    /// Elements of x, padding included, covered by all outputs together.
    constexpr std::int64_t reached() const { return (output - 1) * stride + covered(); }

    auto operator<=>(const ConvolutionAxis&) const = default;
};

/// Sizes and steps, shared by a problem and its description for cuDNN.
struct ConvolutionGeometry {
    std::int64_t images = 0, groups = 1;
    std::int64_t inputs = 0, outputs = 0;  ///< channels of one group
    ConvolutionAxis h{}, w{};

    /// Multiply-adds.
    std::int64_t work() const { return images * groups * inputs * outputs * h.output * w.output * h.kernel * w.kernel; }

    auto operator<=>(const ConvolutionGeometry&) const = default;
};

/// An array of four axes: [n, c, h, w], or [o, i, kh, kw].
struct ConvolutionArray {
    std::byte* data = nullptr;
    Dtype dtype = Dtype::f32;
    std::array<std::int64_t, 4> stride{};

    std::byte* at(std::int64_t element) const { return data + element * static_cast<std::int64_t>(size_of(dtype)); }
    /// True if, with these sizes, channels are neighbours in memory and there are no gaps.
    constexpr bool channels_last(const std::array<std::int64_t, 4>& sizes) const {
        std::int64_t step = 1;
        for (const std::size_t axis : {1u, 3u, 2u, 0u}) {
            if (sizes[axis] != 1 && stride[axis] != step) return false;
            step *= sizes[axis];
        }
        return true;
    }
    constexpr std::int64_t offset(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
        return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
    }
};

struct ConvolutionProblem : ConvolutionGeometry {
    ConvolutionArray x{}, weight{}, y{};
    ConvolutionPass pass = ConvolutionPass::forward;
    const std::byte* bias = nullptr;
    std::int64_t bias_step = 0;
    Dtype operand = Dtype::f32, bias_dtype = Dtype::f32;
    Activation activation = Activation::none;
    bool has_bias = false;
    float beta = 0;

    const ConvolutionArray& written() const {
        return pass == ConvolutionPass::forward ? y : pass == ConvolutionPass::data ? x : weight;
    }
    /// True if all arrays are channels-last without gaps.
    bool channels_last() const {
        return x.channels_last({images, groups * inputs, h.input, w.input}) &&
               y.channels_last({images, groups * outputs, h.output, w.output}) &&
               weight.channels_last({groups * outputs, inputs, h.kernel, w.kernel});
    }
    std::int64_t written_elements() const {
        if (pass == ConvolutionPass::forward) return images * groups * outputs * h.output * w.output;
        if (pass == ConvolutionPass::data) return images * groups * inputs * h.input * w.input;
        return groups * outputs * inputs * h.kernel * w.kernel;
    }
    const std::byte* bias_at(std::int64_t channel) const {
        return bias + channel * bias_step * static_cast<std::int64_t>(size_of(bias_dtype));
    }
    /// True if nothing is written.
    bool empty() const { return written_elements() == 0; }
};

ConvolutionProblem reduce(const Convolution& convolution);

}  // namespace headroom::kernels
