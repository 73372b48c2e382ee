#pragma once
// Images as bytes, read from PNG and JPEG files by libpng and libjpeg-turbo, and written as PNG. All kinds of pixels
// (grey, palette, 16 bits, CMYK, transparency) are converted to bytes of the requested colours and rotated by EXIF
// data. For training, sources and transforms read images on the loader's threads (image_dataset.hpp). image_header.hpp
// reads a file's size without decoding it.
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

/// Thrown if a file can't be read as an image: it is missing, empty, truncated, damaged, or of another kind.
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
    /// Fills all pixels with `value`. Errors: ShapeError if a size is below 1 or the number of bytes overflows.
    Image(std::int64_t height, std::int64_t width, std::int64_t channels, std::uint8_t value = 0);

    bool empty() const { return pixels.empty(); }
    /// The channels of a pixel, which must be inside of the image.
    const std::uint8_t* at(std::int64_t y, std::int64_t x) const { return pixels.data() + (y * width + x) * channels; }
    std::uint8_t* at(std::int64_t y, std::int64_t x) { return pixels.data() + (y * width + x) * channels; }

    bool operator==(const Image&) const = default;
};

/// "640 wide, 480 high": a size in pixels, for messages.
std::string wide_and_high(std::int64_t height, std::int64_t width);

/// The colours of an image; the value is its number of channels.
enum class Colors { grey = 1, rgb = 3 };

/// How pixels are read: `upright` rotates and mirrors by the EXIF data of a JPEG or PNG, as viewers do; `stored` leaves
/// them as they are in the file.
enum class Orientation { upright, stored };

/// Reads a PNG or JPEG file; its first bytes decide which. 16-bit values keep their upper 8 bits, grey is repeated to
/// RGB, colours become grey by ITU-R 601's weights, CMYK is read as Adobe writes it (inverted), and transparency is
/// dropped. Results equal Pillow's `ImageOps.exif_transpose` and `convert("RGB")` or `convert("L")`, except that Pillow
/// turns 16-bit grey above 255 into white. Errors: BadImage, with what is wrong and where, for a file that can't be
/// read, is neither PNG nor JPEG, is a JPEG of a kind that libjpeg does not read (12 bits, lossless), is truncated or
/// corrupt, or states more than 2^28 pixels, or more than its bytes can hold.
Image read_image(const std::filesystem::path& path, Colors colors = Colors::rgb,
                 Orientation orientation = Orientation::upright);

/// The same, from the bytes of a file. Errors begin with `name`.
Image decode_image(std::string_view bytes, const std::string& name, Colors colors = Colors::rgb,
                   Orientation orientation = Orientation::upright);

/// Reads class ids from a PNG as one channel: the values of a grey image, or the palette indices of a palette image. A
/// mask's own EXIF data rotates it. Errors: BadImage as above, or for a PNG with RGB colours, 16 bits or transparency,
/// or for a JPEG, whose values are not exact.
Image read_mask(const std::filesystem::path& path, Orientation orientation = Orientation::upright);

/// The same, from the bytes of a file. Errors begin with `name`.
Image decode_mask(std::string_view bytes, const std::string& name, Orientation orientation = Orientation::upright);

/// Writes an image as PNG. Errors: ShapeError unless it has 1 or 3 channels, FileError if the file can't be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace headroom::data
