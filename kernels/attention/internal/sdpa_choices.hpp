#pragma once
// The fastest known cuDNN plan for each attention.
//
//     SdpaChoices& choices = stream.state->get<SdpaChoices>();
//     if (const std::string* plan = choices.find(part, place)) ...
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/device/plan_choices.hpp>

namespace headroom::kernels {

using SdpaChoices = PlanChoices<Sdpa>;

}  // namespace headroom::kernels
