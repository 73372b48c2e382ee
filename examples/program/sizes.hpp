#pragma once
// Sizes of memory as people write them: flags take "512MiB", "1.5 GB" or bytes, and what is printed has both forms.
//
//     app.add_option("--memory-limit", limit, "of the device's memory")->transform(bytes());
//     fmt::print("peak {}\n", size_text(24'612'345));  // "peak 24.6 MB (24612345 bytes)"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace headroom::program {

/// The bytes of "20000000", "512MiB" or "1.5 GB", rounded; none if it is no such size, such as a fraction without a
/// unit, or above 2^64 - 1. B; kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB and K, M, G, T of 1024; capitals
/// do not matter.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// A flag's value as `parse_bytes` takes it, turned into bytes; all else is wrong usage.
CLI::Validator bytes();

/// Rounded, for people, with the exact number behind it.
std::string size_text(std::size_t bytes);

}  // namespace headroom::program
