#include <headroom/kernels/convolution/internal/implicit.hpp>

#include <algorithm>

#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kLeastTile = 8;      // rows or columns below which a tile of 64 is not worth it
constexpr std::int64_t kTile = 64;          // as kernels/matmul/internal/tiles.cuh has it
constexpr std::int64_t kBlocks = 512;       // some four for each multiprocessor of a large GPU
constexpr std::int64_t kThreads = 1 << 16;  // for elements that one thread sums
constexpr std::int64_t kLeastDepth = 512;   // of a part

/// Images, rows and columns of positions: of y, and where they stand in it.
ImplicitSteps pixels_of(const ConvolutionArray& array) {
    return {.outer = {array.stride[0], 0, 0}, .middle = {array.stride[2], 0, 0}, .inner = {array.stride[3], 0, 0}};
}
/// The same as positions in an image, `stride` apart.
ImplicitSteps positions_of(std::int64_t image, std::int64_t y, std::int64_t x) {
    return {.outer = {image, 0, 0}, .middle = {0, y, 0}, .inner = {0, 0, x}};
}
ImplicitSteps channels_of(std::int64_t stride) { return {.inner = {stride, 0, 0}}; }

ImplicitOperand image_of(const ConvolutionArray& array, std::int64_t group, std::int64_t height, std::int64_t width) {
    return {.data = array.data,
            .group = group,
            .image = true,
            .height = height,
            .width = width,
            .row = array.stride[2],
            .column = array.stride[3]};
}

void share_depth(ImplicitProduct& product) {
    const std::int64_t m = product.rows.size(), n = product.columns.size(), depth = product.depth.size();
    product.tiled = m >= kLeastTile && n >= kLeastTile;
    const std::int64_t work =
        product.tiled ? quotient_up(m, kTile) * quotient_up(n, kTile) * product.groups : product.elements();
    const std::int64_t most = quotient_up(product.tiled ? kBlocks : kThreads, std::max<std::int64_t>(work, 1));
    const std::int64_t parts = std::clamp<std::int64_t>(depth / kLeastDepth, 1, most);
    product.part = std::max<std::int64_t>(1, quotient_up(depth, parts));
    product.parts = std::max<std::int64_t>(1, quotient_up(depth, product.part));
}

}  // namespace

ImplicitProduct implicit_product(const ConvolutionProblem& p) {
    const ImplicitAxis y_pixels{p.images, p.h.output, p.w.output}, x_pixels{p.images, p.h.input, p.w.input};
    const auto &xs = p.x.stride, &ws = p.weight.stride, &ys = p.y.stride;
    const std::int64_t x_group = p.inputs * xs[1], w_group = p.outputs * ws[0], y_group = p.outputs * ys[1];
    ImplicitProduct product{.groups = p.groups,
                            .operand = p.operand,
                            .result = p.written().data,
                            .result_dtype = p.written().dtype,
                            .bias_dtype = p.bias_dtype,
                            .bias = p.bias,
                            .bias_step = p.bias_step,
                            .has_bias = p.has_bias,
                            .relu = p.activation == Activation::relu,
                            .beta = p.beta};
    const ImplicitOperand weight{.data = p.weight.data, .group = w_group};
    // A tap's place in x, seen from a position of the kernel; the padding is before the first.
    ImplicitSteps window{.outer = {0, p.h.dilation, 0}, .middle = {0, 0, p.w.dilation}, .inner = {xs[1], 0, 0}};
    window.start = {0, -p.h.padding, -p.w.padding};
    const ImplicitSteps positions = positions_of(xs[0], p.h.stride, p.w.stride);
    switch (p.pass) {
        case ConvolutionPass::forward:  // pixels of y x channels of y, over taps and channels of x
            product.rows = y_pixels, product.columns = {1, 1, p.outputs};
            product.depth = {p.h.kernel, p.w.kernel, p.inputs};
            product.left = image_of(p.x, x_group, p.h.input, p.w.input);
            product.left.line = positions, product.left.depth = window;
            product.left.along_depth = xs[1] <= xs[3] * p.w.stride;
            product.right = weight;
            product.right.line = channels_of(ws[0]);
            product.right.depth = {.outer = {ws[2], 0, 0}, .middle = {ws[3], 0, 0}, .inner = {ws[1], 0, 0}};
            product.right.along_depth = ws[1] <= ws[0];
            product.result_group = y_group;
            product.result_row = pixels_of(p.y), product.result_column = channels_of(ys[1]);
            product.along_row = ys[1] <= ys[3];
            break;
        case ConvolutionPass::data:  // pixels of x x channels of x, over taps and channels of y
            product.rows = x_pixels, product.columns = {1, 1, p.inputs};
            product.depth = {p.h.kernel, p.w.kernel, p.outputs};
            product.left = image_of(p.y, y_group, p.h.output, p.w.output);
            product.left.line = positions_of(ys[0], 1, 1);
            product.left.line.start = {0, p.h.padding, p.w.padding};
            product.left.depth = {
                .outer = {0, -p.h.dilation, 0}, .middle = {0, 0, -p.w.dilation}, .inner = {ys[1], 0, 0}};
            product.left.y_divisor = p.h.stride, product.left.x_divisor = p.w.stride;
            product.left.along_depth = ys[1] <= ys[3];
            product.right = weight;
            product.right.line = channels_of(ws[1]);
            product.right.depth = {.outer = {ws[2], 0, 0}, .middle = {ws[3], 0, 0}, .inner = {ws[0], 0, 0}};
            product.right.along_depth = ws[0] <= ws[1];
            product.result_group = x_group;
            product.result_row = pixels_of(p.x), product.result_column = channels_of(xs[1]);
            product.along_row = xs[1] <= xs[3];
            break;
        case ConvolutionPass::weight:  // channels of y x taps and channels of x, over pixels of y
            product.rows = {1, 1, p.outputs}, product.columns = {p.h.kernel, p.w.kernel, p.inputs};
            product.depth = y_pixels;
            product.left = {.data = p.y.data, .group = y_group, .line = channels_of(ys[1]), .depth = pixels_of(p.y)};
            product.left.along_depth = ys[3] <= ys[1];
            product.right = image_of(p.x, x_group, p.h.input, p.w.input);
            product.right.line = window, product.right.depth = positions;
            product.right.along_depth = xs[3] * p.w.stride <= xs[1];
            product.result_group = w_group;
            product.result_row = channels_of(ws[0]);
            product.result_column = {.outer = {ws[2], 0, 0}, .middle = {ws[3], 0, 0}, .inner = {ws[1], 0, 0}};
            product.along_row = ws[1] <= ws[0];
            break;
    }
    share_depth(product);
    return product;
}

}  // namespace headroom::kernels
