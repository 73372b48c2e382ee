#pragma once
// The numbers that decide about an optimizer step (seed of backward, finite or not, clipping, loss scale) are kept and
// computed in the device's memory, so that the host only queues work. `optim::GradientAccumulator` calls these
// functions. Programs that read a loss before they go on don't need them.
//
//     accumulate(stream, terms, state.terms, 1, 0);         // of the first micro-batch, if the device counts them
//     begin_step(stream, terms_known, state);               // state.seed, from state.scale and all terms so far
//     ...                                                   // gradients, state.loss_sum, state.squared_gradients
//     end_step(stream, rule, terms_known, state, outcome);  // state.multiplier, outcome; the next scale
//     adamw(stream, step, multiplier, steps, gradient, ...);       // does nothing if the multiplier is 0
//     count_step(stream, multiplier, steps);
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// The state that is kept from step to step: in memory, an f64 array of these elements in this order.
struct StepState {
    double loss_sum = 0;           ///< over the step's terms
    double terms = 0;              ///< those that were counted on the device; the host knows the others
    double squared_gradients = 0;  ///< their sum
    double scale = 1;              ///< the loss scale
    double good_steps = 0;         ///< finite steps since the scale changed
    double seed = 1;               ///< of backward
    double multiplier = 0;         ///< of the gradients, for the optimizer's kernels; 0 skips the step
    double stopped = 0;            ///< 1: a step diverged, and no later one is done
};
inline constexpr std::int64_t kStepStateElements = sizeof(StepState) / sizeof(double);

/// The outcome of a step, for the host to read when it likes: also an f64 array of these elements.
struct StepOutcome {
    static constexpr double kTaken = 0, kSkipped = 1, kDiverged = 2;

    double loss = 0;           ///< mean per term
    double gradient_norm = 0;  ///< of the mean's gradient, before clipping
    double terms = 0;
    double multiplier = 1;  ///< of the gradients, to get the mean's
    double verdict = kTaken;
};
inline constexpr std::int64_t kStepOutcomeElements = sizeof(StepOutcome) / sizeof(double);

struct LossScaleRule {
    bool enabled = false;  ///< if not, the scale stays as it is
    double growth = 2;     ///< times, after `interval` finite steps in a row
    double backoff = 0.5;  ///< times, after a step that was not finite
    double interval = 2000;
    double minimum = 1, maximum = 1;
};

struct StepRule {
    double clip = 0;  ///< largest norm of the mean's gradient; 0: no clipping
    LossScaleRule scale = {};
    bool stop_when_diverged = false;
};

/// state.seed = the power of two next to state.scale / (state.terms + terms), 1 standing for fewer terms: the seed of
/// backward for all micro-batches of a step, of which the first has been counted.
void begin_step(CpuStream& stream, double terms, const View& state);
void begin_step(CudaStream& stream, double terms, const View& state);

/// Decides about the step: taken if loss and gradients are finite and there are terms, else skipped; diverged if they
/// are not finite and the loss scale can't be lowered. Writes state.multiplier and `outcome`, then updates the loss
/// scale. The terms are `terms` and those in the state. `state` and `outcome` are contiguous f64 arrays of as many
/// elements as their structs.
void end_step(CpuStream& stream, const StepRule& rule, double terms, const View& state, const View& outcome);
void end_step(CudaStream& stream, const StepRule& rule, double terms, const View& state, const View& outcome);

/// steps += 1, unless the multiplier is 0 or NaN: then optimizers skip the step. Both: one f64.
void count_step(CpuStream& stream, const View& multiplier, const View& steps);
void count_step(CudaStream& stream, const View& multiplier, const View& steps);

}  // namespace headroom::kernels
