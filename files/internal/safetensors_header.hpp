#pragma once
// The JSON parts of safetensors files: a file's header, and the index of a model in parts.
//
//     const SafetensorsHeader header = parse_header("model.safetensors", text, data_bytes);
//     header.entries[0].begin;  // bytes behind the header
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <headroom/files/safetensors.hpp>

namespace headroom::files {

/// Far above any real header; keeps a lying length from allocating.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;

[[noreturn]] void refuse_safetensors(const std::filesystem::path& path, const std::string& what);

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;
    Metadata metadata;
};

/// Errors: FileError unless the tensors fill `data_bytes` without overlap or gap.
SafetensorsHeader parse_header(const std::filesystem::path& path, const std::string& text, std::uint64_t data_bytes);

/// The files of an index by the names of their tensors. Errors: FileError unless it is one, and names files beside it.
std::map<std::string, std::string> parse_index(const std::filesystem::path& path, const std::string& text);

}  // namespace headroom::files
