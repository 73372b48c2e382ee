#include <headroom/data/image.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/data/image_color.hpp>
#include <headroom/data/internal/codecs.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr uint64_t max_pixels = uint64_t{1} << 28;

Image repeat_grey(const Image& grey) {
    Image rgb(grey.height, grey.width, 3);
    for (std::size_t i = 0; i < grey.pixels.size(); ++i) std::fill_n(rgb.pixels.data() + 3 * i, 3, grey.pixels[i]);
    return rgb;
}

[[noreturn]] void fail_kind(const std::string& name, std::string_view bytes) {
    std::string first;
    for (const char byte : bytes.substr(0, 4)) first += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    throw FileError(fmt::format("{}: is neither PNG nor JPEG: it begins with 0x{}; convert it", name, first));
}

}  // namespace

Image::Image(int64_t height, int64_t width, int64_t channels, uint8_t value)
    : height(height), width(width), channels(channels) {
    int64_t bytes = channels;
    if (height < 1 || width < 1 || channels < 1 || __builtin_mul_overflow(bytes, height, &bytes) ||
        __builtin_mul_overflow(bytes, width, &bytes))
        throw ShapeError(fmt::format("an image of {} x {} pixels and {} channels can't be", height, width, channels));
    pixels.assign(static_cast<std::size_t>(bytes), value);
}

void check_image_size(const std::string& name, uint64_t width, uint64_t height) {
    if (width == 0 || height == 0) throw FileError(fmt::format("{}: has {} x {} pixels", name, height, width));
    if (width > max_pixels / height)
        throw FileError(fmt::format("{}: claims {} x {} pixels; at most {} are read", name, height, width, max_pixels));
}

Image decode_image(std::string_view bytes, const std::string& name, Colors colors) {
    Image image = is_png(bytes)    ? decode_png(bytes, name)
                  : is_jpeg(bytes) ? decode_jpeg(bytes, name)
                                   : (fail_kind(name, bytes), Image());
    if (image.channels == static_cast<int64_t>(colors)) return image;
    return colors == Colors::rgb ? repeat_grey(image) : to_grey(image);
}

Image read_image(const std::filesystem::path& path, Colors colors) {
    return decode_image(read_file(path), path.native(), colors);
}

Image decode_mask(std::string_view bytes, const std::string& name) {
    if (is_png(bytes)) return decode_png_mask(bytes, name);
    if (!is_jpeg(bytes)) fail_kind(name, bytes);
    throw FileError(fmt::format("{}: a mask can't be a JPEG, whose values are not exact; use PNG", name));
}

Image read_mask(const std::filesystem::path& path) { return decode_mask(read_file(path), path.native()); }

}  // namespace headroom::data
