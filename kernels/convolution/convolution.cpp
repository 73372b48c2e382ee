#include <headroom/kernels/convolution/convolution.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/kernels/convolution/internal/blocked.hpp>
#include <headroom/kernels/convolution/internal/library.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// Multiply-adds below which oneDNN's call costs more than it gains.
constexpr std::int64_t kLibraryThreshold = 1 << 16;

void check_dtypes(const Convolution& c, const View& written) {
    const View& read = &written == &c.x ? c.y : c.x;
    const View& other = &written == &c.weight ? c.y : c.weight;
    const Dtype dtype = read.dtype;
    if (!is_floating(dtype) || other.dtype != dtype)
        throw DtypeError(fmt::format("convolution: operands must share a floating dtype, got {} and {}", name(dtype),
                                     name(other.dtype)));
    if (written.dtype != dtype && !(is_half(dtype) && written.dtype == Dtype::f32))
        throw DtypeError(fmt::format("convolution: the result of {} operands must be {}{}, got {}", name(dtype),
                                     name(dtype), is_half(dtype) ? " or f32" : "", name(written.dtype)));
    if (c.has_bias() && c.bias.dtype != dtype && c.bias.dtype != written.dtype)
        throw DtypeError(fmt::format("convolution: the bias must be {} or {}, got {}", name(dtype), name(written.dtype),
                                     name(c.bias.dtype)));
}

/// The size of height (axis 0) or width behind a convolution.
std::int64_t size_behind(const Shape& x, const Shape& weight, const ConvolutionSteps& steps, int axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t size = x[2 + axis], kernel = weight[2 + axis];
    const std::int64_t stride = steps.stride[i], padding = steps.padding[i], dilation = steps.dilation[i];
    const char* side = axis == 0 ? "height" : "width";
    if (stride < 1 || dilation < 1 || padding < 0)
        throw ShapeError(
            fmt::format("convolution: along the {}, stride and dilation must be at least 1 and padding at "
                        "least 0, got {}, {} and {}",
                        side, stride, dilation, padding));
    if (kernel < 1 || dilation * (kernel - 1) + 1 > size + 2 * padding)
        throw ShapeError(fmt::format("convolution: a kernel of {} {} with dilation {} does not fit {} {} padded by {}",
                                     side, kernel, dilation, side, size, padding));
    return convolved_size(size, kernel, stride, padding, dilation);
}

void check(const Convolution& c) {
    const Shape y = convolved_shape(c.x.shape, c.weight.shape, c.steps);
    if (c.y.shape != y)
        throw ShapeError(fmt::format("convolution: x {} and weight {} give y {}, not {}", c.x.shape.to_string(),
                                     c.weight.shape.to_string(), y.to_string(), c.y.shape.to_string()));
    const bool weight = c.pass == ConvolutionPass::weight;
    if (weight && (c.has_bias() || c.activation != Activation::none))
        throw ShapeError("convolution: a weight gradient takes neither bias nor activation");
    if (c.activation != Activation::none && c.activation != Activation::relu)
        throw ShapeError("convolution: the activation must be none or relu");
    const View& written = weight ? c.weight : c.pass == ConvolutionPass::data ? c.x : c.y;
    if (c.has_bias() && c.bias.size(0) != written.size(1))
        throw ShapeError(
            fmt::format("convolution: the bias must be [{}], got {}", written.size(1), c.bias.shape.to_string()));
    check_dtypes(c, written);
}

ConvolutionArray array_of(const View& view) {
    ConvolutionArray array{.data = view.as<std::byte>(), .dtype = view.dtype};
    for (int axis = 0; axis < 4; ++axis)
        array.stride[static_cast<std::size_t>(axis)] = view.size(axis) == 1 ? 0 : view.stride(axis);
    return array;
}

}  // namespace

Shape convolved_shape(const Shape& x, const Shape& weight, const ConvolutionSteps& steps) {
    const auto text = [&] { return fmt::format("x {} and weight {}", x.to_string(), weight.to_string()); };
    if (x.rank() != 4 || weight.rank() != 4)
        throw ShapeError(fmt::format("convolution: x and weight have four axes, got {}", text()));
    const std::int64_t groups = steps.groups;
    if (groups < 1 || x[1] % groups != 0 || weight[0] % groups != 0)
        throw ShapeError(fmt::format("convolution: {} groups do not divide the channels of {}", groups, text()));
    if (const std::int64_t wanted = weight[1] * groups; wanted != x[1]) {
        const char* last = wanted == x[3] ? "; if channels come last, use x.permute({0, 3, 1, 2})" : "";
        throw ShapeError(fmt::format("convolution: x {} [n, c, h, w] has {} channels, but weight {} takes {}{}{}",
                                     x.to_string(), x[1], weight.to_string(), wanted,
                                     groups == 1 ? "" : fmt::format(" in {} groups", groups), last));
    }
    return {x[0], weight[0], size_behind(x, weight, steps, 0), size_behind(x, weight, steps, 1)};
}

ConvolutionProblem reduce(const Convolution& c) {
    const auto axis = [&](int i) {
        const auto at = static_cast<std::size_t>(i);
        return ConvolutionAxis{c.x.size(2 + i),    c.y.size(2 + i),     c.weight.size(2 + i),
                               c.steps.stride[at], c.steps.padding[at], c.steps.dilation[at]};
    };
    ConvolutionProblem p{{.images = c.x.size(0),
                          .groups = c.steps.groups,
                          .inputs = c.weight.size(1),
                          .outputs = c.y.size(1) / c.steps.groups,
                          .h = axis(0),
                          .w = axis(1)}};
    p.x = array_of(c.x);
    p.weight = array_of(c.weight);
    p.y = array_of(c.y);
    p.pass = c.pass;
    p.operand = (c.pass == ConvolutionPass::forward ? c.x : c.y).dtype;
    p.has_bias = c.has_bias();
    p.bias = c.bias.as<const std::byte>();
    p.bias_step = p.has_bias ? c.bias.stride(0) : 0;
    p.bias_dtype = c.bias.dtype;
    p.activation = c.activation;
    p.beta = c.beta;
    return p;
}

ConvolutionPlan::ConvolutionPlan(const Stream& stream, const Convolution& convolution) {
    check(convolution);
    problem_ = reduce(convolution);
    if (problem_.empty()) return;
    if (on_cuda(stream)) {
        product_ = implicit_product(problem_);
        cudnn_ = plan_cudnn_on(stream, problem_);
        const std::size_t library = cudnn_ ? bytes_behind(problem_, *cudnn_) + cudnn_->scratch() : 0;
        scratch_ = std::max(product_.scratch(), library);  // also where there is no cuDNN
        return;
    }
    StreamState* const state = state_of(stream);
    if (state != nullptr && problem_.work() >= kLibraryThreshold)
        library_ = state->get<ConvolutionCache>().find(threads_of(stream), problem_);
    scratch_ = library_ != nullptr ? library_->scratch() : blocked_scratch(threads_of(stream), problem_);
}

void ConvolutionPlan::run(CpuStream& stream, std::byte* scratch) const {
    if (problem_.empty()) return;
    if (library_ != nullptr) return library_->run(stream, problem_, scratch);
    blocked_convolution(stream, problem_, scratch);
}

}  // namespace headroom::kernels
