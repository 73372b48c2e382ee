#include <headroom/core/ops/pad.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/images.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>

namespace headroom {

namespace ops {

namespace {

using kernels::AxisMap;

/// Along one axis: how many elements come in front and behind, and where the common ones begin in x and y.
struct Amounts {
    Amounts(const Pad::Attrs& attrs, int rank, int axis, std::int64_t size) {
        const int number = rank - 1 - axis;  // the last axis comes first
        if (number < attrs.front.rank()) front = attrs.front[number], behind = attrs.behind[number];
        common = std::max<std::int64_t>(0, size + std::min<std::int64_t>(front, 0) + std::min<std::int64_t>(behind, 0));
    }
    std::int64_t front = 0, behind = 0, common = 0;
};

/// The elements that x and its padded array have in common, in x (`sign` = -1) or in the padded array (1).
View common_part(View view, const Pad::Attrs& attrs, const Shape& x, int sign) {
    for (int axis = 0; axis < x.rank(); ++axis) {
        const Amounts amounts(attrs, x.rank(), axis, x[axis]);
        view.data = view.at(std::max<std::int64_t>(0, sign * amounts.front) * view.strides[axis]);
        view.shape[axis] = amounts.common;
    }
    return view;
}

/// The value around that part: for each axis what lies in front of it and behind it, between the parts of the axes
/// before.
template <class Stream>
void fill_around(Stream& stream, double value, View view, const Pad::Attrs& attrs, const Shape& x, int sign) {
    for (int axis = 0; axis < x.rank(); ++axis) {
        const Amounts amounts(attrs, x.rank(), axis, x[axis]);
        const std::int64_t size = view.shape[axis];
        const std::int64_t begin = std::min(size, std::max<std::int64_t>(0, sign * amounts.front));
        View part = view;
        part.shape[axis] = begin;
        if (part.numel() > 0) kernels::fill(stream, value, part);
        part.shape[axis] = size - begin - amounts.common;
        part.data = view.at((begin + amounts.common) * view.strides[axis]);
        if (part.numel() > 0) kernels::fill(stream, value, part);
        view.data = view.at(begin * view.strides[axis]);
        view.shape[axis] = amounts.common;
    }
}

ImageMaps maps_of(const Pad::Attrs& attrs, const Shape& x) {
    const auto map = [&](int axis) {
        const Amounts amounts(attrs, 4, axis, x[axis]);
        const auto kind = attrs.mode == PadMode::reflect ? AxisMap::Kind::reflect : AxisMap::Kind::replicate;
        return AxisMap::padding(kind, x[axis], amounts.front, amounts.behind);
    };
    return {map(2), map(3)};
}

Shape padded(const Pad::Attrs& attrs, const Shape& x) {
    constexpr std::int64_t most = std::int64_t{1} << 56;  // beyond any array
    if (attrs.front.rank() > x.rank())
        throw ShapeError(
            fmt::format("pad: got amounts for {} axes, more than x {} has", attrs.front.rank(), x.to_string()));
    Shape shape = x;
    for (int axis = 0; axis < x.rank(); ++axis) {
        const Amounts amounts(attrs, x.rank(), axis, x[axis]);
        const std::int64_t larger = std::max(amounts.front, amounts.behind);
        const auto amount_fits = [&](std::int64_t amount) { return amount >= -most && amount <= most; };
        const bool fits = amount_fits(amounts.front) && amount_fits(amounts.behind);
        if (fits) shape[axis] += amounts.front + amounts.behind;
        if (!fits || shape[axis] < 0 || (shape[axis] == 0 && x[axis] > 0)) {
            throw ShapeError(fmt::format("pad: {} and {} make axis {} of x {} empty or too large", amounts.front,
                                         amounts.behind, axis, x.to_string()));
        }
        if (attrs.mode == PadMode::reflect && larger >= x[axis] && larger > 0) {
            throw ShapeError(fmt::format("pad: reflect must pad axis {} of x {} by less than its size, got {}", axis,
                                         x.to_string(), larger));
        }
    }
    return shape;
}

}  // namespace

OpResult<Pad::Saved, Array> Pad::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("pad", {{"x", x}});
    if (attrs.mode != PadMode::constant && attrs.value != 0)
        throw Error(fmt::format("pad: only constant padding takes a value, got {}", attrs.value));
    if (attrs.mode == PadMode::constant) {
        check_holds("pad", attrs.value, x.dtype);
        const Shape& from = x.shape();
        Array y = exec.empty_like(padded(attrs, from), x.strides(), x.dtype);
        exec.launch([&](auto& stream) {
            fill_around(stream, attrs.value, y.view(), attrs, from, 1);
            const View part = common_part(y.view(), attrs, from, 1);
            if (part.numel() > 0) kernels::copy(stream, common_part(x.view(), attrs, from, -1), part);
        });
        return {{}, std::move(y)};
    }
    check_images("pad", x);
    if (attrs.front.rank() > 2) {
        throw ShapeError(
            fmt::format("pad: reflect and replicate pad the last two axes, got amounts for {}", attrs.front.rank()));
    }
    padded(attrs, x.shape());
    return {{}, resampled(exec, x, maps_of(attrs, x.shape()))};
}

void Pad::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (attrs.mode != PadMode::constant) return give_resampled(exec, dy, maps_of(attrs, sink.shape(0)), sink);
    const auto dx = sink.destination(0);
    if (!dx) return;
    const Shape& from = dx.array.shape();
    exec.launch([&](auto& stream) {
        if (dx.beta == 0) fill_around(stream, 0, dx.view(), attrs, from, -1);
        const View part = common_part(dx.view(), attrs, from, -1);
        if (part.numel() == 0) return;
        kernels::accumulate(stream, common_part(dy.view(), attrs, from, 1), part, 1.0f, dx.beta);
    });
}

std::vector<Sample<Pad::Attrs>> Pad::samples() {
    using In = SampleInput;
    constexpr auto reflect = PadMode::reflect, replicate = PadMode::replicate;
    const In x = In::normal({2, 3, 4, 5});
    return {{"two axes", {.front = {1, 3}, .behind = {2, 4}, .value = 0.5}, {x}},
            {"all axes", {.front = {1, 0, 2, 1}, .behind = {0, 1, 1, 0}}, {x}},
            {"a vector", {.front = {2}, .behind = {3}, .value = -1}, {In::normal({4})}},
            {"taken away", {.front = {-1, 2}, .behind = {-2, -1}}, {x}},
            {"more than there is", {.front = {-7}, .behind = {9}, .value = 2}, {x}},
            {"no amounts", {}, {x}},
            {"integers", {.front = {1}, .behind = {1}, .value = 3}, {In::index({2, 3}, 9)}},
            {"truth values", {.front = {1}, .behind = {1}, .value = 1}, {In::boolean({2, 3})}},
            {"from nothing", {.front = {1}, .behind = {2}, .value = 3}, {In::normal({2, 0})}},
            {"reflect", {.front = {4, 1}, .behind = {2, 3}, .mode = reflect}, {In::normal({1, 8, 4, 5})}},
            {"reflect and take away", {.front = {-1, 1}, .behind = {2, -2}, .mode = reflect}, {x}},
            {"replicate", {.front = {4, 1}, .behind = {7, 3}, .mode = replicate}, {x}},
            {"replicate and take away", {.front = {-1}, .behind = {2}, .mode = replicate}, {x}},
            {"reflect by the size",
             {.front = {5}, .behind = {0}, .mode = reflect},
             {x},
             "axis 3 of x [2, 3, 4, 5] by less than its size, got 5"},
            {"nothing left", {.front = {-3}, .behind = {-2}}, {x}, "-3 and -2 make axis 3 of x [2, 3, 4, 5] empty"},
            {"too much", {.front = {INT64_MAX}, .behind = {1}}, {x}, "or too large"},
            {"too many axes",
             {.front = {1, 1}, .behind = {1, 1}},
             {In::normal({4})},
             "amounts for 2 axes, more than x [4] has"},
            {"channels", {.front = {1, 1, 1}, .behind = {1, 1, 1}, .mode = replicate}, {x}, "pad the last two axes"},
            {"no image",
             {.front = {1}, .behind = {1}, .mode = reflect},
             {In::normal({4, 4})},
             "x [4, 4] must be [N, C, H, W]"},
            {"a value for a mirror",
             {.front = {1}, .behind = {1}, .mode = reflect, .value = 3},
             {x},
             "takes a value, got 3"},
            {"a value that does not fit",
             {.front = {1}, .behind = {1}, .value = 300},
             {In::boolean({2, 3})},
             "300 does not fit into bool"},
            {"nothing", {}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor pad(Tensor x, const std::vector<std::int64_t>& amounts, PadMode mode, double value) {
    if (amounts.size() % 2 != 0 || amounts.size() > 2 * kMaxRank) {
        throw Error(
            fmt::format("pad: amounts must be pairs for at most {} axes, got {} numbers", kMaxRank, amounts.size()));
    }
    ops::Pad::Attrs attrs{.mode = mode, .value = value};
    for (std::size_t i = 0; i < amounts.size(); i += 2) {
        attrs.front.push_back(amounts[i]);
        attrs.behind.push_back(amounts[i + 1]);
    }
    return apply<ops::Pad>(attrs, std::move(x));
}

}  // namespace headroom
