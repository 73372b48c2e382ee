#pragma once
// The negative log likelihood of classes, from log probabilities. For logits use cross_entropy.hpp, which stores no
// probabilities.
//
//     Loss loss = nll_loss(log_softmax(logits), targets, {.ignore_index = 0});     // [12, 64, 65], targets [12, 64]
#include <headroom/core/loss.hpp>

namespace headroom {

struct NllLossOptions {
    std::int64_t ignore_index = -100;  ///< rows with this target add neither to the sum nor to the terms
    /// [C], floating, without a gradient. A row counts as much as the weight of its target, in the sum and in the
    /// terms.
    Tensor class_weights = {};
};

/// The sum over rows of -log_probabilities[target], times the target's weight. log_probabilities [..., C] of any
/// floating dtype, targets [...] (i32 or i64). The sum is f32 (f64 for f64); its terms are counted on the device.
/// Composed of `gather` and `where`: keeps the targets and one byte per row. Errors: ShapeError, also for a target
/// outside [0, C), with its value and position; DtypeError; Error for weights that require a gradient.
Loss nll_loss(Tensor log_probabilities, Tensor targets, const NllLossOptions& options = {});

}  // namespace headroom
