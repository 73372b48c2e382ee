#pragma once
// The size of a PNG or JPEG and its orientation by EXIF data, read without decoding it. That takes some microseconds,
// so that a training can look at all of its files before it begins.
//
//     const auto header = data::image_header(bytes);
//     if (header) fmt::print("{}\n", data::wide_and_high(header->height, header->width));
//     const bool probably_whole = data::whole_image_header("cat.jpg").has_value();
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <headroom/data/image.hpp>

namespace headroom::data {

struct ImageHeader {
    std::int64_t height = 0, width = 0;  // as stored
    int orientation = 1;                 // EXIF's, 1 to 8; 1 where there is none
    bool ids = false;                    // true for a PNG that `read_mask` takes
    bool wide_grey = false;              // true for a PNG of 16-bit grey, of which `read_image` takes the upper 8 bits
    std::string unusual = {};            // why not every libjpeg reads a JPEG: "it has 12 bits a sample"; else empty

    /// Height and width of the image when it is read in this orientation.
    std::pair<std::int64_t, std::int64_t> size(Orientation reading) const {
        const bool turned = reading == Orientation::upright && orientation >= 5;
        return turned ? std::pair(width, height) : std::pair(height, width);
    }
};

/// None for bytes that do not begin as an image, up to its first pixels. Damaged EXIF data counts as none.
std::optional<ImageHeader> image_header(std::string_view bytes);

/// The same for a file; reads a few KB of it. Also none unless the file ends as a whole image does: if it is missing or
/// cut, or if something else follows; nor of a JPEG that not every libjpeg reads. `read_image` then says what is wrong,
/// if anything.
std::optional<ImageHeader> whole_image_header(const std::filesystem::path& path);

}  // namespace headroom::data
