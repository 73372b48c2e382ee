#include <headroom/memory/history/internal/file_writer.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {

namespace {

/// Length of the well-formed character at the beginning of `text`, which is not empty; 0 if there is none.
std::size_t character_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const auto follows = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
    const std::uint8_t first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF) {
        if (!follows(1) || !follows(2)) return 0;
        // Longer than needed, or half of a surrogate pair.
        if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
        return 3;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        if (!follows(1) || !follows(2) || !follows(3)) return 0;
        if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
        return 4;
    }
    return 0;
}

}  // namespace

FileWriter::FileWriter(std::filesystem::path path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (!file_) fail();
    text.reserve(kFull + (kFull >> 2));
}

void FileWriter::fail() const {
    throw FileError(fmt::format("memory history: {} can't be written: {}", path_.string(), std::strerror(errno)));
}

void FileWriter::flush() {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail();
    text.clear();
}

void FileWriter::finish() {
    flush();
    if (std::fclose(file_.release()) != 0) fail();
}

std::string valid_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        if (length == 0) {
            out += "\xEF\xBF\xBD";
            text.remove_prefix(1);
        } else {
            out += text.substr(0, length);
            text.remove_prefix(length);
        }
    }
    return out;
}

void append_json(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : valid_utf8(text)) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<std::uint8_t>(c) < 0x20 || c == '<' || c == 0x7F) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    out += '"';
}

void append_base64(std::string& out, std::string_view bytes) {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto byte = [&](std::size_t i) -> std::uint32_t {
        return i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0;
    };
    out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        out += kDigits[group >> 18];
        out += kDigits[group >> 12 & 63];
        out += i + 1 < bytes.size() ? kDigits[group >> 6 & 63] : '=';
        out += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
    }
}

}  // namespace headroom::memory
