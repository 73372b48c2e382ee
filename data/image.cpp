#include <headroom/data/image.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/data/image_color.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_header.hpp>
#include <headroom/data/internal/codecs.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

Image repeat_grey(const Image& grey) {
    Image rgb(grey.height, grey.width, 3);
    for (std::size_t i = 0; i < grey.pixels.size(); ++i) std::fill_n(rgb.pixels.data() + 3 * i, 3, grey.pixels[i]);
    return rgb;
}

[[noreturn]] void fail_kind(const std::string& name, std::string_view bytes) {
    std::string first;
    for (const char byte : bytes.substr(0, 4)) first += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    throw BadImage(fmt::format("{}: is neither PNG nor JPEG: it begins with 0x{}; convert it", name, first));
}

Image oriented(Image image, std::string_view bytes, Orientation orientation) {
    if (orientation == Orientation::stored) return image;
    const auto header = image_header(bytes);
    return header && header->orientation != 1 ? turn(image, header->orientation) : image;
}

}  // namespace

std::string wide_and_high(std::int64_t height, std::int64_t width) {
    return fmt::format("{} wide, {} high", width, height);
}

Image::Image(std::int64_t height, std::int64_t width, std::int64_t channels, std::uint8_t value)
    : height(height), width(width), channels(channels) {
    std::int64_t bytes = channels;
    if (height < 1 || width < 1 || channels < 1 || __builtin_mul_overflow(bytes, height, &bytes) ||
        __builtin_mul_overflow(bytes, width, &bytes))
        throw ShapeError(
            fmt::format("an image must have a positive size that fits into memory, got {} with {} channels",
                        wide_and_high(height, width), channels));
    pixels.assign(static_cast<std::size_t>(bytes), value);
}

void check_image_size(const std::string& name, std::uint64_t width, std::uint64_t height) {
    const auto size = wide_and_high(static_cast<std::int64_t>(height), static_cast<std::int64_t>(width));
    if (width == 0 || height == 0) throw BadImage(fmt::format("{}: has no pixels: it is {}", name, size));
    if (width > kMaxPixels / height)
        throw BadImage(fmt::format("{}: claims to be {}; at most {} pixels are read", name, size, kMaxPixels));
}

std::string read_image_file(const std::filesystem::path& path) {
    try {
        return read_file(path);
    } catch (const FileError& error) {
        throw BadImage(error.what());
    }
}

Image decode_image(std::string_view bytes, const std::string& name, Colors colors, Orientation orientation) {
    Image image = is_png(bytes)    ? decode_png(bytes, name)
                  : is_jpeg(bytes) ? decode_jpeg(bytes, name)
                                   : (fail_kind(name, bytes), Image());
    image = oriented(std::move(image), bytes, orientation);
    if (image.channels == static_cast<std::int64_t>(colors)) return image;
    return colors == Colors::rgb ? repeat_grey(image) : to_grey(image);
}

Image read_image(const std::filesystem::path& path, Colors colors, Orientation orientation) {
    return decode_image(read_image_file(path), path.native(), colors, orientation);
}

Image decode_mask(std::string_view bytes, const std::string& name, Orientation orientation) {
    if (is_png(bytes)) return oriented(decode_png_mask(bytes, name), bytes, orientation);
    if (!is_jpeg(bytes)) fail_kind(name, bytes);
    throw BadImage(fmt::format("{}: a mask can't be a JPEG, whose values are not exact; use PNG", name));
}

Image read_mask(const std::filesystem::path& path, Orientation orientation) {
    return decode_mask(read_image_file(path), path.native(), orientation);
}

}  // namespace headroom::data
