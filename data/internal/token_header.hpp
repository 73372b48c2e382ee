#pragma once
// Skips the headers of token files from NumPy (.npy) and llm.c. Otherwise a header would be read as tokens and trained
// on.
//
//     std::span<const std::byte> numbers = token_numbers(file.bytes(), "train.npy", TokenFormat::u16);
#include <cstddef>
#include <filesystem>
#include <span>

#include <headroom/data/tokens.hpp>

namespace headroom::data {

/// The part of `file` after the header, or all of it if there is none. Errors: FileError for a damaged header, a header
/// that states another format, or an archive.
std::span<const std::byte> token_numbers(std::span<const std::byte> file, const std::filesystem::path& path,
                                         TokenFormat format);

}  // namespace headroom::data
