#include <headroom/core/ops/feed_forward.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/run_matmul.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

void check(Activation activation, const Array& x, const Array& up_weight, const Array& up_bias,
           const Array& down_weight, const Array& down_bias) {
    constexpr const char* op = FeedForward::info.name;
    if (activation == Activation::none) {
        throw Error(fmt::format("{}: needs an activation; without one, use linear() twice", op));
    }
    const Argument up("up_weight", up_weight), down("down_weight", down_weight);
    check_one_dtype(op, {{"x", x}, up, {"up_bias", up_bias, kOptional}, down, {"down_bias", down_bias, kOptional}});
    check_form(op, up, up_weight.rank() == 2, "[hidden, in]");
    check_form(op, down, down_weight.rank() == 2, "[out, hidden]");
    check_last_axis(op, {"x", x}, up_weight.size(1), up);
    check_last_axis(op, down, up_weight.size(0), up);
    check_shape(op, {"up_bias", up_bias}, {up_weight.size(0)}, up);
    check_shape(op, {"down_bias", down_bias}, {down_weight.size(0)}, down);
}

/// x's shape with another last axis.
Shape with_last(Shape shape, std::int64_t size) {
    shape[shape.rank() - 1] = size;
    return shape;
}

View bias_view(const Array& bias) { return bias.defined() ? bias.view() : View{}; }

constexpr std::int64_t kPositionStep = 16;

/// How many positions of the first axis are worked on at a time, so that what is as wide as the hidden layer is never
/// there whole but for `inner`: a function of shape, dtype and options alone, so that a replay computes the same bits.
/// Each chunk goes over the weights, and backward over their gradients: smaller ones are slower. On a GPU one is as
/// large as the scratch budget. Beside halves, x's gradient may be there in f32, and takes what the chunks must save.
std::int64_t chunk_rows(const Exec& exec, const View& wide) {
    const std::int64_t most = is_half(wide.dtype) ? 6 : 4;
    std::int64_t elements = std::int64_t{1} << (is_half(wide.dtype) ? 16 : 18);
    if (kernels::on_cuda(exec.stream())) {
        const std::size_t budget = kernels::compute_of(exec.stream()).scratch_budget;
        const auto room = static_cast<std::int64_t>(budget / size_of(wide.dtype));
        elements = std::max(elements, std::min(room, wide.numel()));
    }
    const std::int64_t chunks = std::clamp(kernels::quotient_up(wide.numel(), elements), std::int64_t{1}, most);
    const std::int64_t step = wide.rank() == 2 ? kPositionStep : 1;  // else a position is many rows
    return std::min(wide.size(0), kernels::round_up(kernels::quotient_up(wide.size(0), chunks), step));
}

/// `view`, whose leading axes are those of x, as a matrix where x's lie evenly.
View rows_with(const Array& x, const View& view) {
    if (!x.is_contiguous() || x.rank() < 2) return as_matrix(view);
    const int last = view.rank() - 1;
    std::int64_t rows = 1;
    for (int axis = 0; axis < last; ++axis) rows *= view.size(axis);
    return contiguous_view(view.data, view.dtype, {rows, view.size(last)});
}

}  // namespace

OpResult<FeedForward::Saved, Array> FeedForward::forward(Exec& exec, const Attrs& attrs, const Array& x,
                                                         const Array& up_weight, const Array& up_bias,
                                                         const Array& down_weight, const Array& down_bias) {
    check(attrs.activation, x, up_weight, up_bias, down_weight, down_bias);
    const bool output = exec.output_wanted();
    // On a GPU a library may compute `inner` by itself otherwise than beside the hidden layer, and bits would differ.
    const bool activate = output || on_cuda(exec.stream());
    Array inner, y;
    const Shape wide = with_last(x.shape(), up_weight.size(0));
    if (exec.saved_wanted()) inner = exec.empty(wide, x.dtype);
    if (output) y = exec.empty(with_last(x.shape(), down_weight.size(0)), x.dtype);
    const View x_rows = rows_with(x, x.view());
    View hidden = rows_with(x, contiguous_view(nullptr, x.dtype, wide));
    const std::int64_t rows = x_rows.size(0), step = chunk_rows(exec, hidden);
    hidden.shape[0] = step;
    const Scratch memory = exec.scratch(activate ? hidden.size_bytes() : 0);
    hidden.data = memory.data();
    for (std::int64_t first = 0; first < rows; first += step) {
        const std::int64_t count = std::min(step, rows - first);
        const View inner_rows = inner.defined() ? rows_of(rows_with(x, inner.view()), first, count) : View{};
        kernels::Matmul up{.a = rows_of(x_rows, first, count),
                           .b = kernels::transposed(up_weight.view()),
                           .c = inner_rows,
                           .bias = bias_view(up_bias)};
        if (activate) {
            up.c = rows_of(hidden, 0, count);
            up.activation = attrs.activation;
            up.inner = inner_rows;
        }
        run_matmul(exec, up);
        if (!output) continue;
        run_matmul(exec, {.a = up.c,
                          .b = kernels::transposed(down_weight.view()),
                          .c = rows_of(rows_with(x, y.view()), first, count),
                          .bias = bias_view(down_bias)});
    }
    return {{x, up_weight, down_weight, std::move(inner)}, std::move(y)};
}

// In chunks of rows: the gradient of `inner` is never there whole. The hidden layer is made over `inner`, which nobody
// else has, and x's gradient over x, where nothing else needs that.
void FeedForward::backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink) {
    const View x = rows_with(saved.x, saved.x.view()), dys = rows_with(saved.x, dy.view());
    const View inner = rows_with(saved.x, saved.inner.view());
    JointTargets targets(exec, sink);
    const JointTarget &up_weight = targets.ask(1), &up_bias = targets.ask(2);
    const JointTarget &down_weight = targets.ask(3), &down_bias = targets.ask(4);
    const JointTarget& dx = targets.ask(0, saved.x);
    const std::int64_t rows = x.size(0), step = chunk_rows(exec, inner);
    View memory = inner;
    memory.shape[0] = step;
    const Scratch scratch = exec.scratch(memory.size_bytes());
    memory.data = scratch.data();
    std::int64_t first = 0;
    const auto after = [&](JointTarget target) {  // later chunks are added
        if (first > 0) target.beta = 1.0f;
        return target;
    };
    do {  // once even without rows: gradients are then zero
        const std::int64_t count = std::min(step, rows - first);
        const View dy_rows = rows_of(dys, first, count), x_rows = rows_of(x, first, count);
        const View hidden = rows_of(inner, first, count), dinner = rows_of(memory, 0, count);
        run_matmul(exec, {.a = dy_rows,
                          .b = saved.down_weight.view(),
                          .c = dinner,
                          .activation = attrs.activation,
                          .inner = hidden,
                          .derivative = true,
                          .outer = down_weight ? hidden : View{}});
        affine_gradients(exec, dy_rows, hidden, after(down_weight), after(down_bias));
        affine_gradients(exec, dinner, x_rows, after(up_weight), after(up_bias));
        if (dx) {
            const View dx_rows = rows_of(rows_with(saved.x, dx.view), first, count);
            run_matmul(exec, {.a = dinner, .b = saved.up_weight.view(), .c = dx_rows, .beta = dx.beta});
        }
        first += step;
    } while (first < rows);
}

Operations FeedForward::operations(const Attrs&, std::span<const Shape> inputs, std::span<const Shape>) {
    // Up and down; backward recomputes no product.
    const double rows = elements_of(inputs[0]) / static_cast<double>(std::max<std::int64_t>(inputs[1][1], 1));
    return Operations::of_product(2 * rows * (elements_of(inputs[1]) + elements_of(inputs[3])));
}

std::vector<Sample<FeedForward::Attrs>> FeedForward::samples() {
    using I = SampleInput;
    const Attrs gelu{}, erf{Activation::gelu_erf}, relu{Activation::relu};
    const auto layers = [](Shape x, std::int64_t in, std::int64_t hidden, std::int64_t out) {
        return std::vector<I>{I::normal(x), I::normal({hidden, in}), I::normal({hidden}), I::normal({out, hidden}),
                              I::normal({out})};
    };
    const auto with = [](std::vector<I> inputs, std::size_t i, I input) {
        inputs[i] = input;
        return inputs;
    };
    const auto rows = layers({3, 4}, 4, 5, 2);
    const std::vector<I> kinked{I::halves({2, 3, 3}), I::halves({5, 3}), I::halves({5}), I::normal({4, 5}),
                                I::normal({4})};
    return {
        {"rows", gelu, rows},
        {"erf", erf, layers({2, 3, 3}, 3, 7, 3)},
        {"relu", relu, kinked},
        {"no biases", gelu, with(with(rows, 2, I::none()), 4, I::none())},
        {"no bias up", erf, with(rows, 2, I::none())},
        {"no bias down", relu, with(kinked, 4, I::none())},
        {"odd sizes", gelu, layers({33, 17}, 17, 65, 9)},
        {"vector", gelu, layers({4}, 4, 3, 2)},
        {"no rows", gelu, layers({0, 4}, 4, 3, 2)},
        {"no hidden features", gelu, layers({3, 4}, 4, 0, 2)},
        {"no activation", {Activation::none}, rows, "feed_forward: needs an activation"},
        {"x", gelu, with(rows, 0, I::normal({3, 5})), "feed_forward: x [3, 5] must be [..., 4]"},
        {"up_weight's rank", gelu, with(rows, 1, I::normal({4})), "feed_forward: up_weight [4] must be [hidden, in]"},
        {"up_bias", gelu, with(rows, 2, I::normal({4})), "feed_forward: up_bias [4] must be [5]"},
        {"no down_weight", gelu, with(rows, 3, I::none()), "feed_forward: down_weight is an undefined tensor"},
        {"down_weight", gelu, with(rows, 3, I::normal({2, 4})), "feed_forward: down_weight [2, 4] must be [..., 5]"},
        {"down_bias", gelu, with(rows, 4, I::normal({1, 2})), "feed_forward: down_bias [1, 2] must be [2]"},
        {"integers", gelu, with(rows, 0, I::index({3, 4}, 5)), "feed_forward: x must be floating, got i64"},
    };
}

}  // namespace ops

Tensor feed_forward(Tensor x, Tensor up_weight, Tensor up_bias, Tensor down_weight, Tensor down_bias,
                    Activation activation) {
    return apply<ops::FeedForward>({activation}, std::move(x), std::move(up_weight), std::move(up_bias),
                                   std::move(down_weight), std::move(down_bias));
}

}  // namespace headroom
