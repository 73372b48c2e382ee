#include <headroom/data/image_transforms.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <headroom/data/image_color.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

void expect_in(const char* what, double value, double least, double most) {
    if (!(value >= least && value <= most))
        throw Error(fmt::format("{} is {}, which is not in {} to {}", what, value, least, most));
}

bool is_gone(const ImageObject& object) {
    const auto& mask = object.mask.pixels;
    return !object.box.has_area() ||
           (!mask.empty() && std::all_of(mask.begin(), mask.end(), [](std::uint8_t value) { return value == 0; }));
}

/// `image` and `mask` make an image of an image, `box` a box of a box.
template <class ImageChange, class MaskChange, class BoxChange>
void change(ImageSample& sample, ImageChange image, MaskChange mask, BoxChange box) {
    sample.image = image(sample.image);
    if (!sample.mask.empty()) sample.mask = mask(sample.mask, true);
    for (ImageObject& object : sample.objects) {
        object.box = clip(box(object.box), sample.image.height, sample.image.width);
        if (!object.mask.empty()) object.mask = mask(object.mask, false);
    }
    std::erase_if(sample.objects, is_gone);
}

void resize_region(ImageSample& sample, const Region& region, std::int64_t height, std::int64_t width) {
    const auto left = static_cast<float>(region.left), top = static_cast<float>(region.top);
    const float across = static_cast<float>(width) / static_cast<float>(region.width);
    const float down = static_cast<float>(height) / static_cast<float>(region.height);
    change(
        sample, [&](const Image& image) { return resize(image, region, height, width); },
        [&](const Image& mask, bool) { return resize_nearest(mask, region, height, width); },
        [&](const Box& box) {
            return Box{(box.x1 - left) * across, (box.y1 - top) * down, (box.x2 - left) * across,
                       (box.y2 - top) * down};
        });
}

void crop_region(ImageSample& sample, const Region& region, std::uint8_t fill, std::uint8_t mask_fill) {
    const auto left = static_cast<float>(region.left), top = static_cast<float>(region.top);
    change(
        sample, [&](const Image& image) { return crop(image, region, fill); },
        [&](const Image& mask, bool ids) { return crop(mask, region, ids ? mask_fill : 0); },
        [&](const Box& box) {
            return Box{box.x1 - left, box.y1 - top, box.x2 - left, box.y2 - top};
        });
}

Box warp_box(const Box& box, const Similarity& similarity, std::int64_t height, std::int64_t width) {
    Box around{INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (const Point corner : {Point{box.x1, box.y1}, {box.x2, box.y1}, {box.x1, box.y2}, {box.x2, box.y2}}) {
        const Point at = transform_point(similarity, height, width, corner);
        const auto x = static_cast<float>(at.x), y = static_cast<float>(at.y);
        around = {std::min(around.x1, x), std::min(around.y1, y), std::max(around.x2, x), std::max(around.y2, y)};
    }
    return around;
}

/// As `RandomResizedCrop::get_params` of torchvision: ten tries, then the largest in the middle of an allowed ratio.
Region draw_region(const RandomResizedCrop& t, const Image& image, Draws& draws) {
    const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
    for (int i = 0; i < 10; ++i) {
        const double area = height * width * draws.uniform(t.least_area, t.most_area);
        const double ratio = std::exp(draws.uniform(std::log(t.least_ratio), std::log(t.most_ratio)));
        const std::int64_t w = std::llround(std::sqrt(area * ratio)), h = std::llround(std::sqrt(area / ratio));
        if (w >= 1 && h >= 1 && w <= image.width && h <= image.height)
            return {draws.below(image.height - h + 1), draws.below(image.width - w + 1), h, w};
    }
    const double ratio = std::clamp(width / height, t.least_ratio, t.most_ratio);
    const std::int64_t w = std::clamp<std::int64_t>(std::llround(height * ratio), 1, image.width);
    const std::int64_t h = std::clamp<std::int64_t>(std::llround(width / ratio), 1, image.height);
    return {(image.height - h) / 2, (image.width - w) / 2, h, w};
}

}  // namespace

void Resize::operator()(ImageSample& sample, Draws&) const {
    resize_region(sample, {0, 0, sample.image.height, sample.image.width}, height, width);
}

void ResizeShortestSide::operator()(ImageSample& sample, Draws& draws) const {
    const std::int64_t shorter = std::min(sample.image.height, sample.image.width);
    const std::int64_t longer = std::max(sample.image.height, sample.image.width);
    if (size < 1 || shorter < 1 || largest < 0)
        throw ShapeError(
            fmt::format("ResizeShortestSide: sides must have at least one pixel; size is {}, largest {}, the image {}",
                        size, largest, wide_and_high(sample.image.height, sample.image.width)));
    // Both rounded down, as torchvision does.
    std::int64_t shorter_out = size, longer_out = size * longer / shorter;
    if (largest > 0 && longer_out > largest) {
        shorter_out = std::max<std::int64_t>(largest * size / longer_out, 1);
        longer_out = largest;
    }
    if (sample.image.height <= sample.image.width)
        Resize{shorter_out, longer_out}(sample, draws);
    else
        Resize{longer_out, shorter_out}(sample, draws);
}

void CenterCrop::operator()(ImageSample& sample, Draws&) const {
    // Halves are rounded to even numbers, but for the border of a crop that is larger: as torchvision does.
    const auto half = [](std::int64_t inside, std::int64_t wanted) -> std::int64_t {
        const std::int64_t more = inside - wanted;
        return more < 0 ? more / 2 : std::llrint(static_cast<double>(more) / 2);
    };
    crop_region(sample, {half(sample.image.height, height), half(sample.image.width, width), height, width}, 0, 0);
}

void RandomCrop::operator()(ImageSample& sample, Draws& draws) const {
    const std::int64_t rows = sample.image.height + 2 * padding - height + 1;
    const std::int64_t columns = sample.image.width + 2 * padding - width + 1;
    if (padding < 0 || rows < 1 || columns < 1)
        throw ShapeError(
            fmt::format("RandomCrop: a part that is {} does not fit into an image that is {} with a "
                        "border of {}",
                        wide_and_high(height, width), wide_and_high(sample.image.height, sample.image.width), padding));
    const std::int64_t top = draws.below(rows) - padding;
    const std::int64_t left = draws.below(columns) - padding;
    crop_region(sample, {top, left, height, width}, fill, mask_fill);
}

void RandomResizedCrop::operator()(ImageSample& sample, Draws& draws) const {
    if (!(least_area > 0 && least_area <= most_area && least_ratio > 0 && least_ratio <= most_ratio))
        throw Error(
            fmt::format("RandomResizedCrop: areas and ratios must be above 0 and in ascending order, got areas [{}, "
                        "{}] and ratios [{}, {}]",
                        least_area, most_area, least_ratio, most_ratio));
    resize_region(sample, draw_region(*this, sample.image, draws), height, width);
}

void RandomHorizontalFlip::operator()(ImageSample& sample, Draws& draws) const {
    expect_in("RandomHorizontalFlip: probability", probability, 0, 1);
    if (!draws.chance(probability)) return;
    const auto width = static_cast<float>(sample.image.width);
    change(
        sample, flip_horizontal, [](const Image& mask, bool) { return flip_horizontal(mask); },
        [&](const Box& box) {
            return Box{width - box.x2, box.y1, width - box.x1, box.y2};
        });
}

void RandomVerticalFlip::operator()(ImageSample& sample, Draws& draws) const {
    expect_in("RandomVerticalFlip: probability", probability, 0, 1);
    if (!draws.chance(probability)) return;
    const auto height = static_cast<float>(sample.image.height);
    change(
        sample, flip_vertical, [](const Image& mask, bool) { return flip_vertical(mask); },
        [&](const Box& box) {
            return Box{box.x1, height - box.y2, box.x2, height - box.y1};
        });
}

void RandomAffine::operator()(ImageSample& sample, Draws& draws) const {
    const std::int64_t height = sample.image.height, width = sample.image.width;
    Similarity similarity;
    similarity.degrees = draws.uniform(-degrees, degrees);
    similarity.scale = draws.uniform(least_scale, most_scale);
    similarity.shift_x = draws.uniform(-shift_x, shift_x) * static_cast<double>(width);
    similarity.shift_y = draws.uniform(-shift_y, shift_y) * static_cast<double>(height);
    change(
        sample, [&](const Image& image) { return warp(image, similarity, fill); },
        [&](const Image& mask, bool ids) { return warp_nearest(mask, similarity, ids ? mask_fill : 0); },
        [&](const Box& box) { return warp_box(box, similarity, height, width); });
}

void ColorJitter::operator()(ImageSample& sample, Draws& draws) const {
    constexpr double largest = std::numeric_limits<double>::max();
    expect_in("ColorJitter: brightness", brightness, 0, largest);
    expect_in("ColorJitter: contrast", contrast, 0, largest);
    expect_in("ColorJitter: saturation", saturation, 0, largest);
    expect_in("ColorJitter: hue", hue, 0, 0.5);
    std::array<int, 4> order{0, 1, 2, 3};
    for (std::size_t left = order.size(); left > 1; --left)
        std::swap(order[left - 1], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(left)))]);
    const auto factor = [&](double x) { return draws.uniform(std::max(0.0, 1 - x), 1 + x); };
    Image& image = sample.image;
    for (const int which : order) {
        if (which == 0 && brightness > 0) adjust_brightness(image, factor(brightness));
        if (which == 1 && contrast > 0) adjust_contrast(image, factor(contrast));
        if (which == 2 && saturation > 0) adjust_saturation(image, factor(saturation));
        if (which == 3 && hue > 0) adjust_hue(image, draws.uniform(-hue, hue));
    }
}

}  // namespace headroom::data
