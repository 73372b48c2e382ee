#pragma once
// Reads the size and EXIF orientation of a PNG or JPEG without decoding it. This takes a few microseconds, so a
// training can check all of its files before it begins.
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
    int orientation = 1;                 // EXIF orientation, 1 to 8; 1 if there is none
    bool ids = false;                    // true for a PNG that `read_mask` accepts
    bool wide_grey = false;              // true for a 16-bit grey PNG; `read_image` keeps the upper 8 bits
    std::string unusual = {};  // why some versions of libjpeg reject a JPEG: "it has 12 bits a sample"; else empty

    /// Height and width of the image when it is read in this orientation.
    std::pair<std::int64_t, std::int64_t> size(Orientation reading) const {
        const bool turned = reading == Orientation::upright && orientation >= 5;
        return turned ? std::pair(width, height) : std::pair(height, width);
    }
};

/// None unless `bytes` begin with a valid image header, up to the first pixels. Damaged EXIF data is ignored.
std::optional<ImageHeader> image_header(std::string_view bytes);

/// The header of a file; reads only a few KB. It is also none if the file is missing or truncated, if other bytes
/// follow the image, or for a JPEG that some versions of libjpeg reject. `read_image` then reports what is wrong, if
/// anything.
std::optional<ImageHeader> whole_image_header(const std::filesystem::path& path);

}  // namespace headroom::data
