#pragma once
// Checks that the gradients that a step or a norm reads exist: the part of a segment that no backward pass has reached
// is uninitialised memory.
//
//     check_gradients(parameters, segment, "adamw");
#include <string_view>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

/// Errors: Error if a parameter of the segment has no gradient. The message begins with `who` and names the parameter.
void check_gradients(const Parameters& parameters, const GradientSegment& segment, std::string_view who);

/// Errors: Error if no parameter has a gradient. The message begins with `who`.
void check_reached(const Parameters& parameters, std::string_view who);

}  // namespace headroom::optim
