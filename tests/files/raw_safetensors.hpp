#pragma once
// Safetensors files by their bytes, sound or not.
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace headroom::test {

inline std::string with_length(const std::string& header, std::uint64_t length) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
    return bytes + header;
}

/// A file of `header` and `data`.
inline std::string file_of(const std::string& header, const std::string& data) {
    return with_length(header, header.size()) + data;
}

/// With so many zeros for data.
inline std::string file_of(const std::string& header, std::size_t data = 0) {
    return file_of(header, std::string(data, '\0'));
}

/// The header's entry of a name; `dtype` with its quotes.
inline std::string named_entry(const std::string& name, const std::string& dtype, const std::string& shape,
                               const std::string& offsets) {
    return fmt::format(R"("{}":{{"dtype":{},"shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

/// Of "x".
inline std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return named_entry("x", dtype, shape, offsets);
}

inline std::string object(const std::string& entries) { return fmt::format("{{{}}}", entries); }

}  // namespace headroom::test
