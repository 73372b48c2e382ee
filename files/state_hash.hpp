#pragma once
// One hash for the state of a training: equal hashes mean equal bits.
//
//     std::string hash = files::state_sha256(context, {parameters, optimizer});
#include <string>

#include <headroom/files/checkpoint.hpp>

namespace headroom::files {

/// SHA-256 (FIPS 180-4), 64 hexadecimal digits, over the names, dtypes, shapes and bytes of all the parts' arrays,
/// sorted by name, and the context's random position.
std::string state_sha256(Context& context, const CheckpointParts& parts);

}  // namespace headroom::files
