#pragma once
// Decoding with libpng and libjpeg, one source file each. Both report errors by longjmp; each source has one function
// as the jump target, in which no object has a destructor.
#include <filesystem>
#include <string>
#include <string_view>

#include <headroom/data/image.hpp>

namespace headroom::data {

bool is_png(std::string_view bytes);
bool is_jpeg(std::string_view bytes);

constexpr std::uint64_t kMaxPixels = std::uint64_t{1} << 28;

/// Decodes to the file's one or three channels, without rotation. Errors: BadImage; its message begins with `name`.
Image decode_png(std::string_view bytes, const std::string& name);
Image decode_png_mask(std::string_view bytes, const std::string& name);
Image decode_jpeg(std::string_view bytes, const std::string& name);

/// `ImageHeader::unusual`, also for a JPEG of unknown size.
std::string unusual_jpeg(std::string_view bytes);

/// `read_file` with BadImage errors.
std::string read_image_file(const std::filesystem::path& path);

/// Throws BadImage for an image with no pixels or too many.
void check_image_size(const std::string& name, std::uint64_t width, std::uint64_t height);

}  // namespace headroom::data
