#pragma once
// The gradients of one direction of a recurrent layer.
//
//     add_gradients(direction, attrs, saved, dy, {dx, dh0, dc0, dweight_ih, dweight_hh, dbias_ih, dbias_hh});
#include <span>

#include <headroom/core/ops/internal/recurrent_run.hpp>
#include <headroom/core/ops/joint_targets.hpp>

namespace headroom::recurrent {

/// The destinations of the gradients.
struct Targets {
    const JointTarget &x, &h0, &c0, &weight_ih, &weight_hh, &bias_ih, &bias_hh;
};

/// `dy`: views of the gradients of y [T, B, D H], h_n and, for LSTM, c_n [D, B, H]. Overwrites the saved arrays. The
/// reverse direction adds to x's gradient. dx of a block of time is written after its dy has been read.
void add_gradients(const Direction& direction, const ops::RecurrentAttrs& attrs, const ops::RecurrentSaved& saved,
                   std::span<const View> dy, const Targets& targets);

}  // namespace headroom::recurrent
