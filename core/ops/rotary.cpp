#include <headroom/core/ops/rotary.hpp>

#include <limits>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<RotaryPositions::Saved, Array> RotaryPositions::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating(info.name, {{"x", x}});
    check_form(info.name, {"x", x}, x.rank() == 4 && x.size(3) % 2 == 0, "[B, T, H, D], D even");
    check_range(info.name, "base", attrs.base, std::numeric_limits<double>::min(), std::numeric_limits<double>::max());
    if (attrs.first_position < 0 || attrs.heads < 0 || attrs.heads > x.size(2)) {
        throw ShapeError(fmt::format("rotary: {} heads starting at position {} do not fit x {}", attrs.heads,
                                     attrs.first_position, x.shape().to_string()));
    }
    Array y = exec.output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::rotary(stream, attrs, x.view(), 0.0f, y.view()); });
    return {{}, std::move(y)};
}

void RotaryPositions::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    Attrs turn = attrs;
    turn.back = !attrs.back;
    if (const auto dx = sink.destination(0, dy)) {
        exec.launch([&](auto& stream) { kernels::rotary(stream, turn, dy.view(), dx.beta, dx.view()); });
    }
}

std::vector<Sample<RotaryPositions::Attrs>> RotaryPositions::samples() {
    using I = SampleInput;
    return {
        {"halves", {.heads = 2}, {I::normal({2, 3, 2, 4})}},
        {"neighbours", {.base = 100, .interleaved = true, .heads = 2}, {I::normal({1, 4, 2, 6})}},
        {"later positions", {.first_position = 1000, .heads = 1}, {I::normal({1, 3, 1, 4})}},
        {"some heads", {.heads = 2}, {I::normal({1, 3, 3, 2})}},
        {"no positions", {.heads = 1}, {I::normal({2, 0, 1, 4})}},
        {"no elements", {.heads = 1}, {I::normal({2, 3, 1, 0})}},
        {"odd width", {.heads = 1}, {I::normal({1, 2, 1, 3})}, "x [1, 2, 1, 3] must be [B, T, H, D], D even"},
        {"rank", {.heads = 1}, {I::normal({2, 1, 4})}, "x [2, 1, 4] must be [B, T, H, D], D even"},
        {"too many heads",
         {.heads = 3},
         {I::normal({1, 2, 2, 4})},
         "rotary: 3 heads starting at position 0 do not fit"},
        {"position", {.first_position = -1}, {I::normal({1, 2, 2, 4})}, "starting at position -1"},
        {"base", {.base = 0}, {I::normal({1, 2, 2, 4})}, "rotary: base must be in"},
        {"integers", {.heads = 1}, {I::index({1, 2, 1, 4}, 3)}, "rotary: x must be floating"},
    };
}

}  // namespace ops

Tensor rotary(Tensor x, std::int64_t first_position, const RotaryOptions& options, std::optional<std::int64_t> heads) {
    const std::int64_t all = x.defined() && x.rank() == 4 ? x.size(2) : 0;
    return apply<ops::RotaryPositions>({options.base, options.interleaved, first_position, heads.value_or(all)},
                                       std::move(x));
}

}  // namespace headroom
