#pragma once
// The numbers that decide about an optimizer step (seed of backward, finite or not, clipping, loss scale) are kept and
// computed in the device's memory, so that the host only queues work. `optim::GradientAccumulator` calls these
// functions. Programs that read a loss before they go on don't need them.
//
//     add_terms(stream, 4096, 0, state);                    // of the first micro-batch; or accumulate(), from memory
//     begin_step(stream, state);                            // state.seed, from state.scale and the terms so far
//     ...                                                   // gradients, state.loss_sum, state.squared_gradients
//     end_step(stream, rule, state, outcomes);              // state.multiplier, an outcome; the next scale
//     adamw(stream, step, learning_rate, multiplier, steps, gradient, ...);       // does nothing if the multiplier is 0
//     count_step(stream, multiplier, steps);
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// The state that is kept from step to step: in memory, an f64 array of these elements in this order.
struct StepState {
    double loss_sum = 0;           ///< over the step's terms
    double terms = 0;              ///< the sum's
    double squared_gradients = 0;  ///< their sum
    double scale = 1;              ///< the loss scale
    double good_steps = 0;         ///< finite steps since the scale changed
    double seed = 1;               ///< of backward
    double multiplier = 0;         ///< of the gradients, for the optimizer's kernels; 0 skips the step
    double stopped = 0;            ///< 1: a step diverged, and no later one is done
    double ended = 0;              ///< the number of calls of end_step
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

/// state.terms = beta * state.terms + terms; a beta of 0 reads nothing.
void add_terms(CpuStream& stream, double terms, double beta, const View& state);
void add_terms(CudaStream& stream, double terms, double beta, const View& state);

/// state.seed = the power of two next to state.scale / state.terms, with 1 for fewer than one term: the seed of
/// backward for all micro-batches of a step, when the first has been counted.
void begin_step(CpuStream& stream, const View& state);
void begin_step(CudaStream& stream, const View& state);

/// Decides about the step: taken if loss and gradients are finite and there are terms, else skipped; diverged if they
/// are not finite and the loss scale can't be lowered. Writes state.multiplier and row state.ended % rows of
/// `outcomes`, then updates the loss scale and state.ended. `state` is a contiguous f64 array with one element for each
/// field of its struct, `outcomes` one of [rows, elements of a StepOutcome].
void end_step(CpuStream& stream, const StepRule& rule, const View& state, const View& outcomes);
void end_step(CudaStream& stream, const StepRule& rule, const View& state, const View& outcomes);

/// steps += 1, unless the multiplier is 0 or NaN: then optimizers skip the step. Both: one f64.
void count_step(CpuStream& stream, const View& multiplier, const View& steps);
void count_step(CudaStream& stream, const View& multiplier, const View& steps);

}  // namespace headroom::kernels
