#pragma once
// Images as bytes, read from PNG and JPEG files by libpng and libjpeg-turbo, and written as PNG. Whatever a file holds
// (grey, palette, 16 bits, CMYK, transparency) becomes bytes of the requested colours, turned as its EXIF data says.
// For training, sources and transforms read them on the loader's threads (image_dataset.hpp). image_header.hpp reads a
// file's size without decoding it.
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

#include <headroom/memory/error.hpp>

namespace headroom::data {

/// A file that can't be read as an image, since it is missing, empty, cut, damaged, or of another kind.
class BadImage : public FileError {
  public:
    using FileError::FileError;
};

struct Image {
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t channels = 0;
    std::vector<std::uint8_t> pixels;  // [height, width, channels]

    Image() = default;
    /// All pixels are `value`. Errors: ShapeError unless all are at least 1 and the bytes can be counted.
    Image(std::int64_t height, std::int64_t width, std::int64_t channels, std::uint8_t value = 0);

    bool empty() const { return pixels.empty(); }
    /// The channels of a pixel, which is inside of the image.
    const std::uint8_t* at(std::int64_t y, std::int64_t x) const { return pixels.data() + (y * width + x) * channels; }
    std::uint8_t* at(std::int64_t y, std::int64_t x) { return pixels.data() + (y * width + x) * channels; }

    bool operator==(const Image&) const = default;
};

/// "640 wide, 480 high": a size of pixels in messages.
std::string wide_and_high(std::int64_t height, std::int64_t width);

/// How many channels an image has.
enum class Colors { grey = 1, rgb = 3 };

/// The orientation in which pixels are read: turned and mirrored as EXIF data in a JPEG or PNG says, which is how
/// viewers show the image; or as they are stored.
enum class Orientation { upright, stored };

/// A PNG or JPEG file, whichever its first bytes say. Of 16 bits the upper 8 count, grey is repeated, colours become
/// grey by ITU-R 601's weights, CMYK is taken as Adobe writes it (inverted), transparency is left out: all as in
/// Pillow's `ImageOps.exif_transpose` and `convert("RGB")` or `convert("L")`, except that Pillow turns 16-bit grey
/// above 255 into white. Errors: BadImage with what and where for a file that can't be read, is neither PNG nor JPEG,
/// is a JPEG of a kind that libjpeg does not read (12 bits, lossless), is truncated or corrupt, or claims more than
/// 2^28 pixels, or more than its bytes can hold.
Image read_image(const std::filesystem::path& path, Colors colors = Colors::rgb,
                 Orientation orientation = Orientation::upright);

/// The same, of a file's bytes. Errors begin with `name`.
Image decode_image(std::string_view bytes, const std::string& name, Colors colors = Colors::rgb,
                   Orientation orientation = Orientation::upright);

/// Ids of classes as a PNG stores them: the values of a grey image, or the indices of one with a palette; one channel.
/// A mask with EXIF data of its own is turned as that says. Errors: BadImage as above, or for a PNG of colours, of 16
/// bits or with transparency, or a JPEG, whose values are not exact.
Image read_mask(const std::filesystem::path& path, Orientation orientation = Orientation::upright);

/// The same, of a file's bytes. Errors begin with `name`.
Image decode_mask(std::string_view bytes, const std::string& name, Orientation orientation = Orientation::upright);

/// Errors: ShapeError unless the image has 1 or 3 channels, FileError if the file can't be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace headroom::data
