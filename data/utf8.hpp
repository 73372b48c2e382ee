#pragma once
// UTF-8 (RFC 3629) to Unicode code points and back. Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
// No normalisation and no grapheme clusters: a model's character is a code point.
//
//     std::string copy;
//     data::for_each_code_point("naïve", [&](uint32_t point, std::size_t) { data::append_utf8(copy, point); });
//     std::string shown = data::printable(sampled_bytes);  // safe for a terminal
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headroom::data {

/// A code point and its number of bytes: 1 to 4, or 0 for bytes that are not UTF-8.
struct Utf8Step {
    std::uint32_t code_point;
    int bytes;
};

/// The code point at the start of `text`, which must not be empty.
Utf8Step decode_utf8_step(std::string_view text);

/// Throws the Error that `for_each_code_point` throws for invalid bytes.
[[noreturn]] void throw_invalid_utf8(std::string_view text, std::size_t offset);

/// Calls `use(code_point, offset)` for each code point. Errors: Error with the offset of the first byte that is not
/// UTF-8.
template <class Use>
void for_each_code_point(std::string_view text, Use use) {
    for (std::size_t at = 0; at < text.size();) {
        const auto [point, bytes] = decode_utf8_step(text.substr(at));
        if (bytes == 0) throw_invalid_utf8(text, at);
        use(point, at);
        at += static_cast<std::size_t>(bytes);
    }
}

/// Appends one code point. Errors: Error for a surrogate or a number above U+10FFFF.
void append_utf8(std::string& text, std::uint32_t code_point);

/// Makes `text` safe for a terminal: replaces invalid bytes, and control characters other than newline and tab, by
/// U+FFFD. A byte-level model generates both, including escape sequences.
std::string printable(std::string_view text);

}  // namespace headroom::data
