#pragma once
// Where a box of an image lies on a feature map: each axis is cut into bins, each bin has evenly spaced samples, and
// each sample interpolates between two pixels (He et al. 2017, arXiv:1703.06870; conventions of torchvision). A bin's
// value is the mean of its samples, so it is a weighted sum of pixels, whose weights are products of a row weight and a
// column weight. Plain C++ for both devices.
//
//     const Region<float> region(box, map);                              // box: image, x1, y1, x2, y2
//     for (auto [s, end] = region.rows.samples_of(i); s < end; ++s) use(region.rows.sample(i, s));
//     for (auto [i, end] = region.rows.bins_at(h); i < end; ++i) use(region.rows.weight(i, h));    // the way back
#include <cmath>
#include <cstdint>

#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/element_conversion.hpp>

namespace headroom::kernels {

struct RoiAlignOptions {
    double scale = 1.0;         ///< from the boxes' coordinates to pixels of the features
    std::int64_t sampling = 0;  ///< samples per bin and axis; 0: the bin's size in pixels, rounded up
    /// Coordinates count from a pixel's corner instead of its centre; small boxes are not enlarged.
    bool aligned = false;
};

/// How boxes are cut, and the size of the feature map.
struct RegionMap {
    RoiAlignOptions options;
    std::int64_t bins[2];    ///< of rows and of columns
    std::int64_t pixels[2];  ///< of rows and of columns
};

/// One axis of a region. T: float or double, the type of coordinates.
template <class T>
struct RegionAxis {
    struct Span {
        std::int64_t begin, end;
    };
    /// A sample's weights for two neighbouring pixels; zero if it is outside the map.
    struct Sample {
        std::int64_t pixel[2];
        T weight[2];
    };

    HEADROOM_DEVICE RegionAxis(T low, T high, const RegionMap& map, int axis)
        : bins(map.bins[axis]), pixels(map.pixels[axis]) {
        const T scale = static_cast<T>(map.options.scale), offset = map.options.aligned ? T(0.5) : T(0);
        begin = low * scale - offset;
        T length = high * scale - offset - begin;
        if (!map.options.aligned && length < 1) length = 1;
        bin = length / static_cast<T>(bins);
        samples = map.options.sampling > 0 ? map.options.sampling : to_integer<std::int64_t>(std::ceil(bin));
    }

    /// The samples of a bin that are on the map, and possibly some outside it.
    HEADROOM_DEVICE Span samples_of(std::int64_t o) const {
        return between(place(o, 0), distance(), T(-1), static_cast<T>(pixels), samples);
    }
    HEADROOM_DEVICE Sample sample(std::int64_t o, std::int64_t s) const {
        T at = place(o, s);
        if (!is_on_map(at)) return {};
        at = held(at);
        const auto first = static_cast<std::int64_t>(at);
        const T rest = at - static_cast<T>(first), each = T(1) / static_cast<T>(samples);
        return {{first, first + 1}, {(1 - rest) * each, rest * each}};
    }

    /// The pixels that samples may read.
    HEADROOM_DEVICE Span taken() const {
        const T end = begin + static_cast<T>(bins) * bin, low = begin < end ? begin : end,
                high = begin < end ? end : begin;
        if (samples < 1 || high < -1 || low > static_cast<T>(pixels)) return {0, 0};
        const auto last = static_cast<std::int64_t>(held(high)) + 2;
        return {static_cast<std::int64_t>(held(low)), last < pixels ? last : pixels};
    }
    /// The bins that may read a pixel.
    HEADROOM_DEVICE Span bins_at(std::int64_t pixel) const {
        if (samples < 1) return {0, 0};
        return between(begin, bin, static_cast<T>(pixel - 1), static_cast<T>(pixel + 1), bins);
    }
    /// A bin's weight for a pixel: the sum of its samples' weights.
    HEADROOM_DEVICE T weight(std::int64_t o, std::int64_t pixel) const {
        const T at = static_cast<T>(pixel);
        T sum = 0;
        for (auto [s, end] = between(place(o, 0), distance(), at - 1, at + 1, samples); s < end; ++s) {
            const T y = place(o, s), apart = std::abs(held(y) - at);
            if (is_on_map(y) && apart < 1) sum += 1 - apart;
        }
        return sum / static_cast<T>(samples);
    }

    T begin, bin;  ///< start of the first bin, and a bin's length, in pixels
    std::int64_t bins, samples, pixels;

  private:
    HEADROOM_DEVICE T distance() const { return bin / static_cast<T>(samples); }
    HEADROOM_DEVICE T place(std::int64_t o, std::int64_t s) const {
        return begin + static_cast<T>(o) * bin + (static_cast<T>(s) + T(0.5)) * bin / static_cast<T>(samples);
    }
    /// Samples up to one pixel outside read the outermost pixel.
    HEADROOM_DEVICE bool is_on_map(T at) const { return at >= -1 && at <= static_cast<T>(pixels); }
    HEADROOM_DEVICE T held(T at) const {
        const T last = static_cast<T>(pixels - 1);
        return at < 0 ? T(0) : at < last ? at : last;
    }
    /// The numbers k in [0, count) whose interval, from first + k step to first + (k + 1) step, begins in or overlaps
    /// [low, high], and possibly one more on each side.
    HEADROOM_DEVICE static Span between(T first, T step, T low, T high, std::int64_t count) {
        if (step == 0) return {0, first >= low && first <= high ? count : 0};
        const T a = (low - first) / step, b = (high - first) / step;
        return {limited(std::floor(a < b ? a : b), count), limited(std::ceil(a < b ? b : a) + 1, count)};
    }
    HEADROOM_DEVICE static std::int64_t limited(T k, std::int64_t count) {
        return k <= 0 ? 0 : k < static_cast<T>(count) ? static_cast<std::int64_t>(k) : count;
    }
};

template <class T>
struct Region {
    /// `box`: the image's index and x1, y1, x2, y2.
    HEADROOM_DEVICE Region(const T* box, const RegionMap& map)
        : image(is_there(box, static_cast<T>(map.options.scale)) ? to_integer<std::int64_t>(box[0]) : -1),
          rows(box[2], box[4], map, 0),
          columns(box[1], box[3], map, 1) {}

    std::int64_t image;  ///< -1: on no image; ignored
    RegionAxis<T> rows, columns;

  private:
    /// Beyond 2^24 pixels, neighbouring pixels have equal f32 coordinates. Boxes with NaN are ignored.
    HEADROOM_DEVICE static bool is_there(const T* box, T scale) {
        bool there = box[0] >= 0;
        for (int i = 1; i < 5; ++i) there = there && std::abs(box[i] * scale) <= T(1 << 24);
        return there;
    }
};

}  // namespace headroom::kernels
