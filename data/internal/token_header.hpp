#pragma once
// Headers that some programs write before the numbers of a file of tokens: NumPy's .npy and llm.c's. Without them a
// file has numbers alone; tokens that look like a header would be trained on.
//
//     std::span<const std::byte> numbers = token_numbers(file.bytes(), "train.npy", TokenFormat::u16);
#include <cstddef>
#include <filesystem>
#include <span>

#include <headroom/data/tokens.hpp>

namespace headroom::data {

/// The numbers of such a file, or all of `file`. Errors: FileError if a header is damaged, or says that the numbers
/// have another format; also for archives, which begin like none of these.
std::span<const std::byte> token_numbers(std::span<const std::byte> file, const std::filesystem::path& path,
                                         TokenFormat format);

}  // namespace headroom::data
