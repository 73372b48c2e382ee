#pragma once
// UTF-8 (RFC 3629) to Unicode code points and back. Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
// Not for normalisation or grapheme clusters: a code point is what models see as a character.
//
//     std::vector<uint32_t> points = decode_utf8("naïve");  // 5 code points
//     std::string text = encode_utf8(points);               // 6 bytes
//     std::string shown = printable(sampled_bytes);         // safe for a terminal
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// One code point and how many bytes it took: 1 to 4, or 0 for bytes that are not UTF-8.
struct Utf8Step {
    uint32_t code_point;
    int bytes;
};

/// The code point at the start of `text`, which is not empty.
Utf8Step decode_utf8_step(std::string_view text);

/// Throws the Error of the functions below.
[[noreturn]] void throw_invalid_utf8(std::string_view text, std::size_t offset);

/// Calls `use(code_point, offset)` for each. Errors: Error with the offset of the first byte that is not UTF-8.
template <class Use>
void for_each_code_point(std::string_view text, Use use) {
    for (std::size_t at = 0; at < text.size();) {
        const auto [point, bytes] = decode_utf8_step(text.substr(at));
        if (bytes == 0) throw_invalid_utf8(text, at);
        use(point, at);
        at += static_cast<std::size_t>(bytes);
    }
}

/// All code points. Errors: Error as above.
std::vector<uint32_t> decode_utf8(std::string_view text);

/// Appends one code point. Errors: Error for a surrogate or a number above U+10FFFF.
void append_utf8(std::string& text, uint32_t code_point);
std::string encode_utf8(std::span<const uint32_t> code_points);

/// What may be sent to a terminal: `text` with U+FFFD in place of invalid bytes and of control characters other than
/// newline and tab (a model of bytes generates both, escape sequences among them).
std::string printable(std::string_view text);

}  // namespace headroom
