#pragma once
// Checks that the gradients that a step or a norm reads exist: the part of a segment that no backward pass has reached
// is uninitialised memory.
//
//     check_gradients(parameters, segment, "adamw");
#include <string_view>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

/// Errors: Error, which begins with `who` and names the parameter, if one of the segment has no gradient.
void check_gradients(const Parameters& parameters, const GradientSegment& segment, std::string_view who);

/// Errors: Error, which begins with `who`, if none of the parameters has a gradient.
void check_reached(const Parameters& parameters, std::string_view who);

}  // namespace headroom::optim
