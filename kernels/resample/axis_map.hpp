#pragma once
// How one axis of an image is computed from the axis of another: an output position is a weighted sum of a few input
// positions. Averages over windows, interpolation and padding are such maps of rows and columns, and a gradient is the
// same map read backwards. Plain C++ for both devices.
//
//     AxisMap map = AxisMap::linear(14, 28, false);     // 14 positions to 28
//     for (auto [i, end] = map.span<float>(3); i < end; ++i) sum += map.weight<float>(3, i) * x[i];
//     map.back = true;      // the gradient of input 3 is the same sum, over the outputs that read it
#include <cmath>
#include <cstdint>
#include <optional>

#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels {

struct AxisMap {
    enum class Kind : std::uint8_t { window, adaptive, nearest, linear, reflect, replicate };
    struct Span {
        std::int64_t begin, end;
    };

    Kind kind = Kind::replicate;
    bool back = false;  ///< read the map backwards: input positions are sums over output positions
    bool counts_padding = false, align_corners = false;
    std::int64_t in = 0, out = 0;
    std::int64_t kernel = 1, stride = 1;
    std::int64_t before = 0;   ///< positions in front of the input; negative: this many input positions are skipped
    std::int64_t divisor = 0;  ///< for a window's sum; 0: the number of its positions
    double scale = 1;          ///< from output to input coordinates

    /// Output o is the average of inputs [o stride - before, o stride - before + kernel). Positions outside the input
    /// either count as zeros or don't count; positions further outside than `before` never count.
    static AxisMap window(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                          std::int64_t before, bool counts_padding, std::int64_t divisor = 0) {
        return {.kind = Kind::window,
                .counts_padding = counts_padding,
                .in = in,
                .out = out,
                .kernel = kernel,
                .stride = stride,
                .before = before,
                .divisor = divisor};
    }
    /// Output o is the average of inputs [floor(o in / out), ceil((o + 1) in / out)).
    static AxisMap adaptive(std::int64_t in, std::int64_t out) {
        return {.kind = Kind::adaptive, .in = in, .out = out};
    }
    /// Output o is input floor(o scale), computed in f32 like PyTorch. The scale is 1 / `factor` if given, else in /
    /// out; equal and doubled sizes use exactly 1 and 1/2.
    static AxisMap nearest(std::int64_t in, std::int64_t out, std::optional<double> factor = std::nullopt) {
        AxisMap map{.kind = Kind::nearest, .in = in, .out = out, .scale = ratio(in, out)};
        if (factor && in != out && 2 * in != out) map.scale = 1 / *factor;
        return map;
    }
    /// Output o lies between the two inputs next to its coordinate: o (in - 1) / (out - 1) if `align_corners`, else (o
    /// + 1/2) scale - 1/2 with the scale as above, clamped to the input's ends.
    static AxisMap linear(std::int64_t in, std::int64_t out, bool align_corners,
                          std::optional<double> factor = std::nullopt) {
        AxisMap map{.kind = Kind::linear, .align_corners = align_corners, .in = in, .out = out};
        map.scale = !align_corners ? factor ? 1 / *factor : ratio(in, out) : out > 1 ? ratio(in - 1, out - 1) : 0.0;
        return map;
    }
    /// Output o is input o - before, mirrored at the ends without repeating them; or the nearest end of the input.
    static AxisMap padding(Kind kind, std::int64_t in, std::int64_t before, std::int64_t after) {
        return {.kind = kind, .in = in, .out = in + before + after, .before = before};
    }

    /// The range of positions that position i is computed from; some of them may have weight 0. C: float or double, the
    /// type of coordinates.
    template <class C>
    HEADROOM_DEVICE Span span(std::int64_t i) const {
        return back ? outputs<C>(i) : inputs<C>(i);
    }
    template <class C>
    HEADROOM_DEVICE C weight(std::int64_t i, std::int64_t of) const {
        return back ? weight_of<C>(of, i) : weight_of<C>(i, of);
    }

  private:
    static double ratio(std::int64_t in, std::int64_t out) {
        return static_cast<double>(in) / static_cast<double>(out);
    }
    HEADROOM_DEVICE static std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
    HEADROOM_DEVICE static std::int64_t larger(std::int64_t a, std::int64_t b) { return a < b ? b : a; }
    HEADROOM_DEVICE static std::int64_t held(std::int64_t i, std::int64_t size) { return smaller(larger(i, 0), size); }

    template <class C>
    HEADROOM_DEVICE C coordinate(std::int64_t o) const {
        if (align_corners) return static_cast<C>(o) * static_cast<C>(scale);
        const C at = static_cast<C>(scale) * (static_cast<C>(o) + C(0.5)) - C(0.5);
        return at < 0 ? C(0) : at;
    }
    /// The input that an output reads, the first if it reads two; not for averages.
    template <class C>
    HEADROOM_DEVICE std::int64_t source(std::int64_t o) const {
        if (kind == Kind::linear) return smaller(static_cast<std::int64_t>(std::floor(coordinate<C>(o))), in - 1);
        if (kind == Kind::nearest) {
            const float at = std::floor(static_cast<float>(o) * static_cast<float>(scale));
            return smaller(static_cast<std::int64_t>(at), in - 1);
        }
        const std::int64_t i = o - before;
        if (kind == Kind::replicate) return held(i, in - 1);
        return i < 0 ? -i : i < in ? i : 2 * (in - 1) - i;
    }

    template <class C>
    HEADROOM_DEVICE Span inputs(std::int64_t o) const {
        if (kind == Kind::window) {
            const std::int64_t begin = o * stride - before;
            return {larger(begin, 0), smaller(begin + kernel, in)};
        }
        if (kind == Kind::adaptive) return {o * in / out, ((o + 1) * in + out - 1) / out};
        const std::int64_t first = source<C>(o);
        return {first, smaller(first + (kind == Kind::linear ? 2 : 1), in)};
    }

    /// The weight of input i in output o.
    template <class C>
    HEADROOM_DEVICE C weight_of(std::int64_t o, std::int64_t i) const {
        if (kind == Kind::window || kind == Kind::adaptive) return C(1) / static_cast<C>(counted(o));
        const std::int64_t first = source<C>(o);
        if (kind != Kind::linear) return first == i ? C(1) : C(0);
        const C rest = coordinate<C>(o) - static_cast<C>(first);
        if (first == in - 1) return first == i ? C(1) : C(0);
        return first == i ? C(1) - rest : first + 1 == i ? rest : C(0);
    }
    /// The divisor of a window's sum.
    HEADROOM_DEVICE std::int64_t counted(std::int64_t o) const {
        if (divisor > 0) return divisor;
        if (kind == Kind::window && counts_padding) {
            const std::int64_t begin = o * stride - before;
            return smaller(begin + kernel, in + before) - begin;
        }
        const Span span = inputs<float>(o);
        return span.end - span.begin;
    }

    /// The outputs that read input i.
    template <class C>
    HEADROOM_DEVICE Span outputs(std::int64_t i) const {
        const std::int64_t o = i + before;
        if (kind == Kind::window) return {larger(o - kernel + stride, 0) / stride, smaller(o / stride + 1, out)};
        if (kind == Kind::adaptive) return {i * out / in, ((i + 1) * out + in - 1) / in};
        if (kind == Kind::replicate) return {i == 0 ? 0 : held(o, out), i == in - 1 ? out : held(o + 1, out)};
        if (kind == Kind::reflect) {
            const std::int64_t low = before - i, high = before + 2 * (in - 1) - i;
            return {held(low >= 0 && i > 0 ? low : o, out), held((high < out && i < in - 1 ? high : o) + 1, out)};
        }
        return {first_output<C>(kind == Kind::linear ? i - 1 : i), first_output<C>(i + 1)};
    }
    /// The first output whose source is at least i.
    template <class C>
    HEADROOM_DEVICE std::int64_t first_output(std::int64_t i) const {
        if (i <= 0) return 0;
        if (i >= in) return out;
        const C half = kind == Kind::linear && !align_corners ? C(0.5) : C(0);
        const C at = std::ceil((static_cast<C>(i) + half) / static_cast<C>(scale) - half);
        std::int64_t o = at < static_cast<C>(out) ? larger(static_cast<std::int64_t>(at), 0) : out;
        while (o > 0 && source<C>(o - 1) >= i) --o;
        while (o < out && source<C>(o) < i) ++o;
        return o;
    }
};

}  // namespace headroom::kernels
