#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>
#include <png.h>

#include <fmt/format.h>
#include <headroom/data/image.hpp>
#include <headroom/data/internal/codecs.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

/// Lives outside of the functions that libpng jumps out of.
struct PngReader {
    std::string_view rest;  // what libpng has not read yet
    std::string error;
    Image image;
    std::vector<png_bytep> rows;
    png_structp png = nullptr;
    png_infop info = nullptr;

    explicit PngReader(std::string_view bytes) : rest(bytes) {}
    PngReader(const PngReader&) = delete;
    ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

PngReader& reader_of(png_structp png) { return *static_cast<PngReader*>(png_get_io_ptr(png)); }

void on_error(png_structp png, png_const_charp message) {
    static_cast<PngReader*>(png_get_error_ptr(png))->error = message;
    png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
    std::string_view& rest = reader_of(png).rest;
    if (count > rest.size()) png_error(png, "it ends early");
    std::memcpy(to, rest.data(), count);
    rest.remove_prefix(count);
}

/// The functions that libpng jumps out of return false then; no object in them has a destructor.
bool read_header(PngReader& reader) {
    if (setjmp(png_jmpbuf(reader.png))) return false;
    png_set_read_fn(reader.png, &reader, read_bytes);
    png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // `check_image_size` decides
    png_read_info(reader.png, reader.info);
    return true;
}

bool choose_format(PngReader& reader, bool mask) {
    if (setjmp(png_jmpbuf(reader.png))) return false;
    if (mask) {
        png_set_packing(reader.png);  // values as they are, one a byte
    } else {
        png_set_expand(reader.png);
        png_set_strip_16(reader.png);
        png_set_strip_alpha(reader.png);
    }
    png_set_interlace_handling(reader.png);
    png_read_update_info(reader.png, reader.info);
    return true;
}

bool read_rows(PngReader& reader) {
    if (setjmp(png_jmpbuf(reader.png))) return false;
    png_read_image(reader.png, reader.rows.data());
    png_read_end(reader.png, nullptr);
    return true;
}

void check_mask(const PngReader& reader, const std::string& name) {
    const auto type = png_get_color_type(reader.png, reader.info);
    const bool indices = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_PALETTE;
    if (indices && png_get_bit_depth(reader.png, reader.info) <= 8) return;
    const char* what = indices ? "16 bits" : type & PNG_COLOR_MASK_COLOR ? "colours" : "transparency";
    throw BadImage(fmt::format(
        "{}: a mask of class ids must be a grey or palette PNG of at most 8 bits; this one has {}", name, what));
}

/// Before memory is taken for the pixels: deflate makes at most 1032 bytes of one (zlib's technical details).
void check_room(const PngReader& reader, const std::string& name) {
    const std::int64_t width = png_get_image_width(reader.png, reader.info);
    const std::int64_t height = png_get_image_height(reader.png, reader.info);
    const std::int64_t bits =
        width * png_get_bit_depth(reader.png, reader.info) * png_get_channels(reader.png, reader.info);
    if ((bits + 7) / 8 * height <= 1032 * static_cast<std::int64_t>(reader.rest.size())) return;
    throw BadImage(
        fmt::format("{}: damaged PNG: it claims to be {}, more than the {} bytes that follow can hold; get the file "
                    "again",
                    name, wide_and_high(height, width), reader.rest.size()));
}

Image decode(std::string_view bytes, const std::string& name, bool mask) {
    PngReader reader(bytes);
    reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
    if (reader.png) reader.info = png_create_info_struct(reader.png);
    if (!reader.info) throw FileError(fmt::format("{}: libpng has no memory for it", name));
    const auto check = [&](bool read) {
        if (!read)
            throw BadImage(fmt::format("{}: damaged PNG near byte {} ({}); get the file again", name,
                                       bytes.size() - reader.rest.size(), reader.error));
    };
    check(read_header(reader));
    check_image_size(name, png_get_image_width(reader.png, reader.info), png_get_image_height(reader.png, reader.info));
    check_room(reader, name);
    if (mask) check_mask(reader, name);
    check(choose_format(reader, mask));
    reader.image = Image(png_get_image_height(reader.png, reader.info), png_get_image_width(reader.png, reader.info),
                         png_get_channels(reader.png, reader.info));
    for (std::int64_t y = 0; y < reader.image.height; ++y) reader.rows.push_back(reader.image.at(y, 0));
    check(read_rows(reader));
    return std::move(reader.image);
}

}  // namespace

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG"); }

Image decode_png(std::string_view bytes, const std::string& name) { return decode(bytes, name, false); }

Image decode_png_mask(std::string_view bytes, const std::string& name) { return decode(bytes, name, true); }

void write_png(const std::filesystem::path& path, const Image& image) {
    if ((image.channels != 1 && image.channels != 3) || image.empty())
        throw ShapeError(fmt::format("write_png: an image that is {} with {} channels is neither grey nor RGB",
                                     wide_and_high(image.height, image.width), image.channels));
    png_image header{};
    header.version = PNG_IMAGE_VERSION;
    header.width = static_cast<png_uint_32>(image.width);
    header.height = static_cast<png_uint_32>(image.height);
    header.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    if (!png_image_write_to_file(&header, path.c_str(), 0, image.pixels.data(), 0, nullptr))
        throw FileError(fmt::format("{}: can't be written: {}", path.native(), header.message));
}

}  // namespace headroom::data
