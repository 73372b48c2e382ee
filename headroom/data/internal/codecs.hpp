#pragma once
// Internal: what libpng and libjpeg do, each in a source of its own. Both report errors by longjmp; each source has one
// function that is jumped back to, in which no object has a destructor.
#include <string>
#include <string_view>

#include <headroom/data/image.hpp>

namespace headroom::data {

bool is_png(std::string_view bytes);
bool is_jpeg(std::string_view bytes);

/// One channel or three, as the file has them. Errors: FileError that begins with `name`.
Image decode_png(std::string_view bytes, const std::string& name);
Image decode_png_mask(std::string_view bytes, const std::string& name);
Image decode_jpeg(std::string_view bytes, const std::string& name);

/// Throws FileError for an image of no pixels or too many.
void check_image_size(const std::string& name, uint64_t width, uint64_t height);

}  // namespace headroom::data
