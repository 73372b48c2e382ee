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

/// Far above any real header; bounds allocation for a false length.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;

/// The key of the header that holds metadata, not a tensor.
inline constexpr const char* kMetadataName = "__metadata__";

[[noreturn]] void refuse_safetensors(const std::filesystem::path& path, const std::string& what);

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;
    Metadata metadata;
};

/// Errors: FileError unless the tensors fill `data_bytes` without overlap or gap.
SafetensorsHeader parse_header(const std::filesystem::path& path, const std::string& text, std::uint64_t data_bytes);

/// The part file of each tensor name in an index. Errors: FileError unless the text is an index that names files next
/// to it.
std::map<std::string, std::string> parse_index(const std::filesystem::path& path, const std::string& text);

}  // namespace headroom::files
