#pragma once
// What libpng and libjpeg do, each in a source of its own. Both report errors by longjmp; each source has one
// function that is jumped back to, in which no object has a destructor.
#include <filesystem>
#include <string>
#include <string_view>

#include <headroom/data/image.hpp>

namespace headroom::data {

bool is_png(std::string_view bytes);
bool is_jpeg(std::string_view bytes);

constexpr std::uint64_t kMaxPixels = std::uint64_t{1} << 28;

/// One channel or three, as the file has them, not turned. Errors: BadImage that begins with `name`.
Image decode_png(std::string_view bytes, const std::string& name);
Image decode_png_mask(std::string_view bytes, const std::string& name);
Image decode_jpeg(std::string_view bytes, const std::string& name);

/// `ImageHeader::unusual`, also of a JPEG whose size is not known.
std::string unusual_jpeg(std::string_view bytes);

/// `read_file`, whose errors are BadImage.
std::string read_image_file(const std::filesystem::path& path);

/// Throws BadImage for an image of no pixels or too many.
void check_image_size(const std::string& name, std::uint64_t width, std::uint64_t height);

}  // namespace headroom::data
