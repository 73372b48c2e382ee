#pragma once
// Object masks in COCO's formats: polygons, and run lengths down the columns, as numbers or as a string. The masks
// equal those of pycocotools to the pixel (https://github.com/cocodataset/cocoapi). `CocoImages` (coco.hpp) uses them.
//
//     const data::Image triangle = data::fill_polygons({{2, 2, 18, 2, 2, 12}}, /*height=*/20, /*width=*/30);
//     const data::Image runs = data::decode_runs(std::vector<uint32_t>{5, 3, 592}, 20, 30);  // 5 zeros, 3 ones, 592 zeros
//     const std::vector<uint32_t> counts = data::parse_runs("53`b0");
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <headroom/data/image.hpp>

namespace headroom::data {

/// Checks a polygon x0, y0, x1, y1, ... in pixels. Errors: Error for fewer than three points, an odd number of
/// coordinates, or a coordinate that is outside the image by more than the image's size.
void check_polygon(const std::vector<double>& polygon, std::int64_t height, std::int64_t width);

/// A mask that is 1 inside of any polygon. Errors: as `check_polygon`.
Image fill_polygons(const std::vector<std::vector<double>>& polygons, std::int64_t height, std::int64_t width);

/// Checks run lengths. Errors: Error unless they add up to the number of pixels.
void check_runs(std::span<const std::uint32_t> counts, std::int64_t height, std::int64_t width);

/// Decodes alternating runs of zeros and ones, zeros first, down one column after another. Errors: as `check_runs`.
Image decode_runs(std::span<const std::uint32_t> counts, std::int64_t height, std::int64_t width);

/// Decodes COCO's string form of counts. A count is written in groups of 5 bits, lowest first, as characters from '0'
/// on, with the sixth bit set if more groups follow. From the fourth count on, the string has the difference from the
/// count two places earlier. Errors: Error for another character, a number that ends early, or a count below 0 or above
/// 2^32 - 1.
std::vector<std::uint32_t> parse_runs(std::string_view text);

}  // namespace headroom::data
