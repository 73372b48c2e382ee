#pragma once
// Moves pixels: resizing, cropping, mirroring, rotating. Images are interpolated; masks hold ids and take the nearest
// pixel. Coordinates refer to pixel corners: an image covers [0, width] x [0, height], and the centre of its first
// pixel is at 0.5, 0.5. The random forms for training are in image_transforms.hpp.
//
//     const data::Image small = data::resize(photo, 224, 224);
//     const data::Image same = data::resize_nearest(mask, 224, 224);
//     const data::Image turned = data::warp(photo, {.degrees = 10, .shift_x = 2});
//     const data::Image flipped = data::flip_horizontal(data::crop(photo, {.top = 8, .left = 8, .height = 64, .width = 64}));
#include <cstdint>

#include <headroom/data/image.hpp>

namespace headroom::data {

struct Region {
    std::int64_t top = 0;
    std::int64_t left = 0;
    std::int64_t height = 0;
    std::int64_t width = 0;
};

/// Bilinear with antialiasing: where the image shrinks, the pixels that merge are averaged. The bytes equal those of
/// Pillow 13's `resize(..., BILINEAR)`, which torchvision also calls for images (older versions of Pillow round in
/// another order when they shrink tall images). Errors: ShapeError for a size below 1 or an empty image.
Image resize(const Image& image, std::int64_t height, std::int64_t width);

/// `resize` of a region. Errors: also ShapeError if the region is not inside of the image.
Image resize(const Image& image, const Region& region, std::int64_t height, std::int64_t width);

/// Output pixel i has the value of input pixel floor((i + 1/2) in / out), as in Pillow's NEAREST, except that Pillow
/// takes the previous pixel where (i + 1/2) in / out is an integer. Errors: as `resize`.
Image resize_nearest(const Image& image, std::int64_t height, std::int64_t width);
Image resize_nearest(const Image& image, const Region& region, std::int64_t height, std::int64_t width);

/// Cuts out a region. It may extend beyond the image; pixels there are `fill`. Errors: ShapeError for a size below 1.
Image crop(const Image& image, const Region& region, std::uint8_t fill = 0);

Image flip_horizontal(const Image& image);
Image flip_vertical(const Image& image);

/// Applies an EXIF orientation (CIPA DC-008, tag 274): mirrored (2, 4), upside down (3), or transposed, with height and
/// width swapped (5 to 8); 1 changes nothing. Errors: Error for another number.
Image turn(const Image& image, int orientation);

/// A similarity about the centre of the image: rotated clockwise, scaled, then shifted by pixels to the right and down.
struct Similarity {
    double degrees = 0;
    double scale = 1;
    double shift_x = 0;
    double shift_y = 0;
};

struct Point {
    double x, y;
};

/// The position that `point` of an image of this size moves to.
Point transform_point(const Similarity& similarity, std::int64_t height, std::int64_t width, Point point);

/// Applies the similarity with bilinear interpolation and keeps the image's size; pixels from outside of the image are
/// `fill`. Errors: ShapeError for an empty image, Error for a scale that is not positive or numbers that are not
/// finite.
Image warp(const Image& image, const Similarity& similarity, std::uint8_t fill = 0);
/// As `warp`, with the nearest pixel.
Image warp_nearest(const Image& image, const Similarity& similarity, std::uint8_t fill = 0);

}  // namespace headroom::data
