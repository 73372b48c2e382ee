#pragma once
// One number for the state of a training: equal numbers mean equal bits.
//
//     std::string hash = files::state_sha256(context, {parameters, optimizer});
#include <string>

#include <headroom/files/checkpoint.hpp>

namespace headroom::files {

/// SHA-256 (FIPS 180-4), 64 hexadecimal digits, over the names, dtypes, shapes and bytes of all the parts' arrays in
/// ascending order of names, and the position of the context's random numbers.
std::string state_sha256(Context& context, const CheckpointParts& parts);

}  // namespace headroom::files
