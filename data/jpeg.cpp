#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// jpeglib.h needs cstdio's types first.
#include <jpeglib.h>
// jerror.h needs jpeglib.h.
#include <jerror.h>

#include <fmt/format.h>
#include <headroom/data/image.hpp>
#include <headroom/data/internal/codecs.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

/// Lives outside of the functions that libjpeg jumps out of.
struct JpegReader {
    jpeg_error_mgr errors;
    std::jmp_buf back;
    std::array<char, JMSG_LENGTH_MAX> message{};
    jpeg_decompress_struct jpeg{};
    Image image;
    std::vector<std::uint8_t> row;  // of CMYK

    JpegReader() = default;
    JpegReader(const JpegReader&) = delete;
    ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

void on_error(j_common_ptr jpeg) {
    auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, reader.message.data());
    std::longjmp(reader.back, 1);
}

/// libjpeg goes on after these, and all pixels are what was written.
bool harmless(int warning) {
    return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR || warning == JWRN_ADOBE_XFORM;
}

/// After a warning, libjpeg makes pixels up.
void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && !harmless(jpeg->err->msg_code)) on_error(jpeg);
}

bool read_header(JpegReader& reader, std::string_view bytes) {
    if (setjmp(reader.back)) return false;
    jpeg_create_decompress(&reader.jpeg);
    jpeg_mem_src(&reader.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&reader.jpeg, TRUE);
    return true;
}

/// As Pillow: both are inverted where Adobe's programs wrote them, which is nearly everywhere.
void rgb_of_cmyk(const std::uint8_t* cmyk, std::int64_t width, std::uint8_t* rgb) {
    for (std::int64_t x = 0; x < width; ++x)
        for (std::int64_t c = 0; c < 3; ++c) {
            const int product = cmyk[4 * x + c] * cmyk[4 * x + 3] + 128;
            rgb[3 * x + c] = static_cast<std::uint8_t>((product + (product >> 8)) >> 8);  // product / 255, rounded
        }
}

bool read_rows(JpegReader& reader) {
    if (setjmp(reader.back)) return false;
    jpeg_decompress_struct& jpeg = reader.jpeg;
    jpeg_start_decompress(&jpeg);
    while (jpeg.output_scanline < jpeg.output_height) {
        std::uint8_t* pixels = reader.image.at(jpeg.output_scanline, 0);
        std::uint8_t* row = reader.row.empty() ? pixels : reader.row.data();
        jpeg_read_scanlines(&jpeg, &row, 1);
        if (row != pixels) rgb_of_cmyk(row, reader.image.width, pixels);
    }
    jpeg_finish_decompress(&jpeg);
    return true;
}

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8"); }

Image decode_jpeg(std::string_view bytes, const std::string& name) {
    JpegReader reader;
    jpeg_decompress_struct& jpeg = reader.jpeg;
    jpeg.err = jpeg_std_error(&reader.errors);
    jpeg.client_data = &reader;
    reader.errors.error_exit = on_error;
    reader.errors.emit_message = on_message;
    const auto check = [&](bool read) {
        if (!read)
            throw BadImage(fmt::format("{}: damaged JPEG ({}); get the file again", name, reader.message.data()));
    };
    check(read_header(reader, bytes));
    check_image_size(name, jpeg.image_width, jpeg.image_height);
    const bool grey = jpeg.num_components == 1;
    const bool cmyk = jpeg.num_components == 4;
    jpeg.out_color_space = grey ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
    reader.image = Image(jpeg.image_height, jpeg.image_width, grey ? 1 : 3);
    if (cmyk) reader.row.resize(static_cast<std::size_t>(reader.image.width) * 4);
    check(read_rows(reader));
    return std::move(reader.image);
}

}  // namespace headroom::data
