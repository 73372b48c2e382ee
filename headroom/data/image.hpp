#pragma once
// Images as bytes, read from PNG and JPEG files by libpng and libjpeg-turbo, and written as PNG. Whatever a file holds
// (grey, palette, 16 bits, CMYK, transparency) becomes bytes of the colours that are asked for. Orientations in a
// JPEG's EXIF data are not applied. For training, sources and transforms read them on the loader's threads
// (image_dataset.hpp).
//
//     const data::Image photo = data::read_image("cat.jpg");            // photo.height x photo.width x 3
//     const data::Image mask = data::read_mask("cat.png");              // ids of classes, one channel
//     const uint8_t red = photo.at(10, 20)[0];
//     data::write_png("copy.png", photo);
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::data {

struct Image {
    int64_t height = 0;
    int64_t width = 0;
    int64_t channels = 0;
    std::vector<uint8_t> pixels;  // [height, width, channels]

    Image() = default;
    /// All pixels are `value`. Errors: ShapeError unless all are at least 1 and the bytes can be counted.
    Image(int64_t height, int64_t width, int64_t channels, uint8_t value = 0);

    bool empty() const { return pixels.empty(); }
    /// The channels of a pixel, which is inside of the image.
    const uint8_t* at(int64_t y, int64_t x) const { return pixels.data() + (y * width + x) * channels; }
    uint8_t* at(int64_t y, int64_t x) { return pixels.data() + (y * width + x) * channels; }

    bool operator==(const Image&) const = default;
};

/// How many channels an image has.
enum class Colors { grey = 1, rgb = 3 };

/// A PNG or JPEG file, whichever its first bytes say. 16 bits are rounded to 8, grey is repeated, colours become grey
/// by ITU-R 601's weights, CMYK is taken as Adobe writes it (inverted), transparency is left out: all as Pillow's
/// `convert("RGB")` and `convert("L")`, but that Pillow cuts 16 bits. Errors: FileError with what and where for a file
/// that can't be read, is neither, is truncated or corrupt, or claims more than 2^28 pixels, or more than its bytes can
/// hold.
Image read_image(const std::filesystem::path& path, Colors colors = Colors::rgb);

/// The same, of a file's bytes. Errors begin with `name`.
Image decode_image(std::string_view bytes, const std::string& name, Colors colors = Colors::rgb);

/// Ids of classes as a PNG stores them: the values of a grey image, or the indices of one with a palette; one channel.
/// Errors: FileError as above, or for a PNG of colours, of 16 bits or with transparency, or a JPEG, whose values are
/// not exact.
Image read_mask(const std::filesystem::path& path);

/// The same, of a file's bytes. Errors begin with `name`.
Image decode_mask(std::string_view bytes, const std::string& name);

/// Errors: ShapeError unless the image has 1 or 3 channels, FileError if the file can't be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace headroom::data
