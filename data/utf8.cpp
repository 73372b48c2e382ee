#include <headroom/data/utf8.hpp>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr uint32_t replacement = 0xfffd;

constexpr bool is_scalar_value(uint32_t point) { return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff); }

constexpr bool is_control(uint32_t point) {
    return (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7f && point < 0xa0);
}

}  // namespace

Utf8Step decode_utf8_step(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80) return {lead, 1};
    const int bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < static_cast<std::size_t>(bytes)) return {0, 0};
    uint32_t point = lead & (0x7fu >> bytes);
    for (int i = 1; i < bytes; ++i) {
        const auto next = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
        if ((next & 0xc0) != 0x80) return {0, 0};
        point = point << 6 | (next & 0x3fu);
    }
    constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[bytes] || !is_scalar_value(point)) return {0, 0};
    return {point, bytes};
}

void throw_invalid_utf8(std::string_view text, std::size_t offset) {
    throw Error(fmt::format("invalid UTF-8 at byte {} (0x{:02x}); convert the text to UTF-8 or use bytes", offset,
                            static_cast<unsigned char>(text[offset])));
}

void append_utf8(std::string& text, uint32_t point) {
    if (!is_scalar_value(point)) throw Error(fmt::format("U+{:04X} is not a Unicode character", point));
    const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | ((point >> shift) & 0x3f))); };
    if (point < 0x80) {
        text.push_back(static_cast<char>(point));
    } else if (point < 0x800) {
        text.push_back(static_cast<char>(0xc0 | point >> 6));
        tail(0);
    } else if (point < 0x10000) {
        text.push_back(static_cast<char>(0xe0 | point >> 12));
        tail(6);
        tail(0);
    } else {
        text.push_back(static_cast<char>(0xf0 | point >> 18));
        tail(12);
        tail(6);
        tail(0);
    }
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
