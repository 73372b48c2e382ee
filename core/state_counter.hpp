#pragma once
// Reads counters from the state of a training, such as an optimizer's steps, which continue from a checkpoint.
//
//     steps_ = state_counter(values, "adamw.steps");
#include <cstdint>
#include <string_view>

#include <headroom/core/state_dict.hpp>

namespace headroom {

/// As state_value, for a count from 0 to 2^62; the bound leaves room to count further, so that later checkpoints load,
/// too. Errors: Error that names the value if it is missing or not such a count.
std::int64_t state_counter(const StateValues& values, std::string_view name);

}  // namespace headroom
