#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <headroom/data/image_geometry.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

// Weights are integers of 22 bits behind the point: a sum of bytes with weights that add up to 1 fits into 31 bits.
// Rounded once per axis, in Pillow's order, the bytes are Pillow's.
constexpr int kWeightBits = 22;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

/// What makes each output of one axis: `count` inputs from `first`, with weights that begin at `offset`.
struct Axis {
    struct Output {
        std::int64_t first, count;
        std::size_t offset;
    };
    std::vector<Output> outputs;
    std::vector<std::int32_t> weights;

    Axis(std::int64_t in, std::int64_t out) {
        const double scale = static_cast<double>(in) / static_cast<double>(out);
        const double support = std::max(scale, 1.0);  // half the width of the triangle, in inputs
        std::vector<double> row;
        for (std::int64_t i = 0; i < out; ++i) {
            const double center = (static_cast<double>(i) + 0.5) * scale;
            const std::int64_t first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
            const std::int64_t end = std::min(static_cast<std::int64_t>(center + support + 0.5), in);
            row.clear();
            double sum = 0;
            for (std::int64_t j = first; j < end; ++j) {
                row.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(j) - center + 0.5) / support)));
                sum += row.back();
            }
            outputs.push_back({first, end - first, weights.size()});
            for (const double weight : row)
                weights.push_back(static_cast<std::int32_t>(weight / sum * (1 << kWeightBits) + 0.5));
        }
    }
};

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

/// One row, `channels` known to the compiler.
template <int channels>
void resize_row(const std::uint8_t* from, const Axis& axis, std::uint8_t* to) {
    for (const Axis::Output& output : axis.outputs) {
        std::array<std::int32_t, channels> sums;
        sums.fill(kHalf);
        const std::int32_t* weights = axis.weights.data() + output.offset;
        const std::uint8_t* in = from + output.first * channels;
        for (std::int64_t j = 0; j < output.count; ++j, in += channels)
            for (int c = 0; c < channels; ++c) sums[static_cast<std::size_t>(c)] += in[c] * weights[j];
        for (const std::int32_t sum : sums) *to++ = rounded(sum);
    }
}

void resize_rows(const Image& image, const Region& region, const Axis& axis, Image& out) {
    for (std::int64_t y = 0; y < out.height; ++y) {
        const std::uint8_t* from = image.at(region.top + y, region.left);
        if (image.channels == 3)
            resize_row<3>(from, axis, out.at(y, 0));
        else
            resize_row<1>(from, axis, out.at(y, 0));
    }
}

void resize_columns(const Image& image, const Region& region, const Axis& axis, Image& out) {
    const auto width = static_cast<std::size_t>(region.width * image.channels);
    std::vector<std::int32_t> sums(width);
    for (std::int64_t y = 0; y < out.height; ++y) {
        const Axis::Output& output = axis.outputs[static_cast<std::size_t>(y)];
        std::fill(sums.begin(), sums.end(), kHalf);
        for (std::int64_t j = 0; j < output.count; ++j) {
            const std::uint8_t* in = image.at(region.top + output.first + j, region.left);
            const std::int32_t weight = axis.weights[output.offset + static_cast<std::size_t>(j)];
            for (std::size_t x = 0; x < width; ++x) sums[x] += in[x] * weight;
        }
        std::uint8_t* to = out.at(y, 0);
        for (std::size_t x = 0; x < width; ++x) to[x] = rounded(sums[x]);
    }
}

void check(const Image& image, const Region& region, std::int64_t height, std::int64_t width) {
    if (image.empty() || height < 1 || width < 1)
        throw ShapeError(fmt::format("resize: both images need at least one pixel; one is {}, the other {}",
                                     wide_and_high(height, width), wide_and_high(image.height, image.width)));
    if (image.channels != 1 && image.channels != 3)
        throw ShapeError(fmt::format("resize: an image of {} channels is neither grey nor RGB", image.channels));
    if (region.top < 0 || region.left < 0 || region.height < 1 || region.width < 1 ||
        region.top > image.height - region.height || region.left > image.width - region.width)
        throw ShapeError(
            fmt::format("resize: a region that is {}, at row {} and column {}, is not inside of an image that is {}",
                        wide_and_high(region.height, region.width), region.top, region.left,
                        wide_and_high(image.height, image.width)));
}

Region whole(const Image& image) { return {0, 0, image.height, image.width}; }

/// Pillow's choice, from version 13 on: where the height loses more than twice as many pixels as the width.
bool columns_first(const Region& region, std::int64_t height, std::int64_t width) {
    return height < region.height && region.height - height > 2 * (region.width - width);
}

}  // namespace

Image resize(const Image& image, const Region& region, std::int64_t height, std::int64_t width) {
    check(image, region, height, width);
    if (region.height == height && region.width == width) return crop(image, region);
    const Axis across(region.width, width), down(region.height, height);
    Image out(height, width, image.channels);
    if (region.height == height) {
        resize_rows(image, region, across, out);
    } else if (region.width == width) {
        resize_columns(image, region, down, out);
    } else if (columns_first(region, height, width)) {
        Image low(height, region.width, image.channels);
        resize_columns(image, region, down, low);
        resize_rows(low, whole(low), across, out);
    } else {
        Image narrow(region.height, width, image.channels);
        resize_rows(image, region, across, narrow);
        resize_columns(narrow, whole(narrow), down, out);
    }
    return out;
}

Image resize(const Image& image, std::int64_t height, std::int64_t width) {
    return resize(image, whole(image), height, width);
}

Image resize_nearest(const Image& image, const Region& region, std::int64_t height, std::int64_t width) {
    check(image, region, height, width);
    Image out(height, width, image.channels);
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            const std::int64_t row = region.top + (2 * y + 1) * region.height / (2 * height);
            const std::int64_t column = region.left + (2 * x + 1) * region.width / (2 * width);
            std::copy_n(image.at(row, column), image.channels, out.at(y, x));
        }
    return out;
}

Image resize_nearest(const Image& image, std::int64_t height, std::int64_t width) {
    return resize_nearest(image, whole(image), height, width);
}

}  // namespace headroom::data
