#pragma once
// Counts in the state of a training, such as an optimizer's steps, which go on from where a checkpoint left them.
//
//     steps_ = state_counter(values, "adamw.steps");
#include <cstdint>
#include <string_view>

#include <headroom/core/state_dict.hpp>

namespace headroom {

/// As state_value, at least 0 and at most 2^62: so far that the next checkpoint is one that loads. Errors: Error that
/// names it if it is missing, or no such count.
std::int64_t state_counter(const StateValues& values, std::string_view name);

}  // namespace headroom
