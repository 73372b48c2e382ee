#pragma once
// The outcome of an optimizer step, as `GradientAccumulator` reports it.
//
//     const optim::StepResult result = accumulator.result();
//     if (result.skipped) fmt::print("not finite: nothing was updated\n");
#include <string>
#include <vector>

namespace headroom::optim {

/// A figure of a step in addition to its loss (`GradientAccumulator::figure`).
struct StepFigure {
    std::string name;
    double value = 0;  ///< mean per term, over the step; NaN if it had no terms
};

struct StepResult {
    double loss = 0;           ///< mean per term, over the step; 0 if there were no terms
    double gradient_norm = 0;  ///< gradient norm of the mean loss over all trained parameters, before clipping
    double terms = 0;          ///< over the step
    double multiplier = 1;     ///< `Tensor::grad` times this is the gradient of the mean loss
    bool finite = true;        ///< loss and gradients were finite; otherwise the step was skipped
    bool skipped = false;      ///< nothing was updated: not finite, or no terms
    bool diverged = false;     ///< not finite, and a smaller loss scale can't help: stop training
    std::vector<StepFigure> figures = {};  ///< in the order of `GradientAccumulatorOptions::figures`
};

}  // namespace headroom::optim
