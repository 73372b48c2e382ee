#pragma once
// Sizes of memory as people write them: flags take "512MiB", "1.5 GB" or bytes.
//
//     add_option(app, "--memory-limit", limit, "of the device's memory").check(bytes());
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

/// The bytes of "20000000", "512MiB" or "1.5 GB", rounded; none if it is no such size, such as a fraction without a
/// unit, or above 2^64 - 1. B; kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB and K, M, G, T of 1024; capitals
/// do not matter.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// A flag's value as `parse_bytes` takes it, turned into bytes; all else is wrong usage.
Check bytes();

}  // namespace headroom::cli
