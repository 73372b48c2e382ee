#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
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
    bool refused = false;  // libjpeg can't go on, where else it would make pixels up
    jpeg_decompress_struct jpeg{};
    Image image;
    std::vector<std::uint8_t> row;  // of CMYK

    JpegReader() = default;
    JpegReader(const JpegReader&) = delete;
    ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

JpegReader& reader_of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }

[[noreturn]] void stop(j_common_ptr jpeg) {
    JpegReader& reader = reader_of(jpeg);
    jpeg->err->format_message(jpeg, reader.message.data());
    std::longjmp(reader.back, 1);
}

void on_error(j_common_ptr jpeg) {
    reader_of(jpeg).refused = true;
    stop(jpeg);
}

/// libjpeg goes on after these, and all pixels are what was written.
bool harmless(const JpegReader& reader) {
    const jpeg_error_mgr& errors = reader.errors;
    switch (errors.msg_code) {
        case JWRN_EXTRANEOUS_DATA:
        case JWRN_JFIF_MAJOR:
        case JWRN_ADOBE_XFORM:
        case JWRN_NOT_SEQUENTIAL:  // a sequential scan has all coefficients, whichever ones its header names
            return true;
        case JWRN_BOGUS_PROGRESSION:  // AC coefficients come before their DC coefficients, which `has_dc` looks for
            return reader.jpeg.Ss > 0 && errors.msg_parm.i[1] == 0;
        default:
            return false;
    }
}

/// After a warning, libjpeg makes pixels up.
void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && !harmless(reader_of(jpeg))) stop(jpeg);
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

/// Of a progressive JPEG, all of whose scans have been read: whether every channel has its DC coefficients.
bool has_dc(const jpeg_decompress_struct& jpeg) {
    if (!jpeg.progressive_mode) return true;
    bool all = true;
    for (int channel = 0; channel < jpeg.num_components; ++channel) all &= jpeg.coef_bits[channel][0] >= 0;
    return all;
}

bool read_rows(JpegReader& reader) {
    if (setjmp(reader.back)) return false;
    jpeg_decompress_struct& jpeg = reader.jpeg;
    jpeg_start_decompress(&jpeg);
    if (!has_dc(jpeg)) {
        std::strcpy(reader.message.data(), "a channel has no DC coefficients");
        return false;
    }
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
        if (read) return;
        if (const std::string kind = unusual_jpeg(bytes); reader.refused && !kind.empty())
            throw BadImage(fmt::format(
                "{}: this kind of JPEG is not supported: {}; save it as PNG or as an ordinary JPEG", name, kind));
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
