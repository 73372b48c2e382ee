#pragma once
// One number for the state of a training: equal numbers mean equal bits. SHA-256 (FIPS 180-4) over the names, dtypes,
// shapes and bytes of all arrays in ascending order of names, and the random position.
//
//     std::string hash = state_sha256(parameters, optimizer.state(), context.random_counter());
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/named_array.hpp>
#include <headroom/core/parameters.hpp>

namespace headroom {

/// 64 hexadecimal digits.
std::string state_sha256(Parameters& parameters, const std::vector<NamedArray>& extra, std::uint64_t random_position);

}  // namespace headroom
