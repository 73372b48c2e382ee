#include <headroom/data/utf8.hpp>

#include <fmt/format.h>
#include <utf8proc.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr uint32_t replacement = 0xfffd;

bool is_control(uint32_t point) {
    return point != '\n' && point != '\t' && utf8proc_category(static_cast<int32_t>(point)) == UTF8PROC_CATEGORY_CC;
}

}  // namespace

Utf8Step decode_utf8_step(std::string_view text) {
    utf8proc_int32_t point = 0;
    const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                        static_cast<utf8proc_ssize_t>(text.size()), &point);
    if (bytes <= 0) return {0, 0};
    return {static_cast<uint32_t>(point), static_cast<int>(bytes)};
}

void throw_invalid_utf8(std::string_view text, std::size_t offset) {
    throw Error(fmt::format("invalid UTF-8 at byte {} (0x{:02x}); convert the text to UTF-8 or use bytes", offset,
                            static_cast<unsigned char>(text[offset])));
}

void append_utf8(std::string& text, uint32_t point) {
    if (!utf8proc_codepoint_valid(static_cast<int32_t>(point)))
        throw Error(fmt::format("U+{:04X} is not a Unicode character", point));
    utf8proc_uint8_t bytes[4];
    const auto count = utf8proc_encode_char(static_cast<int32_t>(point), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::string printable(std::string_view text) {
    std::string shown;
    shown.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const auto [point, bytes] = decode_utf8_step(text.substr(at));
        append_utf8(shown, bytes == 0 || is_control(point) ? replacement : point);
        at += bytes == 0 ? 1 : static_cast<std::size_t>(bytes);
    }
    return shown;
}

}  // namespace headroom::data
