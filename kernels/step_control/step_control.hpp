#pragma once
// Keeps and computes the numbers that control an optimizer step (backward's seed, finiteness, clipping, loss scale) in
// device memory, so that the host only queues work. `optim::GradientAccumulator` calls these functions. Programs that
// read each loss before they continue don't need them.
//
//     add_terms(stream, 4096, 0, state);                    // the first micro-batch's; or accumulate()
//     begin_step(stream, state);                            // state.seed, from state.scale and the terms so far
//     ...                                                   // gradients, state.loss_sum, state.squared_gradients
//     end_step(stream, rule, state, outcomes);              // state.multiplier, an outcome; the next scale
//     adamw(stream, step, learning_rate, multiplier, steps, gradient, ...);       // does nothing if the multiplier is 0
//     count_step(stream, multiplier, steps);
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// The state kept from step to step: in memory, an f64 array of these elements in this order.
struct StepState {
    double loss_sum = 0;           ///< over the step's terms
    double terms = 0;              ///< number of terms in the sum
    double squared_gradients = 0;  ///< sum of the squared gradients
    double scale = 1;              ///< the loss scale
    double good_steps = 0;         ///< finite steps since the scale changed
    double seed = 1;               ///< seed of backward
    double multiplier = 0;         ///< factor for the gradients, for the optimizer's kernels; 0 skips the step
    double stopped = 0;            ///< 1: a step diverged; no later step is taken
    double ended = 0;              ///< the number of calls of end_step
};
inline constexpr std::int64_t kStepStateElements = sizeof(StepState) / sizeof(double);

/// The outcome of a step, for the host to read at any time: also an f64 array of these elements.
struct StepOutcome {
    static constexpr double kTaken = 0, kSkipped = 1, kDiverged = 2;

    double loss = 0;           ///< mean per term
    double gradient_norm = 0;  ///< of the mean's gradient, before clipping
    double terms = 0;
    double multiplier = 1;  ///< factor that turns the gradients into the mean's
    double verdict = kTaken;
};
inline constexpr std::int64_t kStepOutcomeElements = sizeof(StepOutcome) / sizeof(double);

struct LossScaleRule {
    bool enabled = false;  ///< if false, the scale never changes
    double growth = 2;     ///< factor after `interval` finite steps in a row
    double backoff = 0.5;  ///< factor after a step that was not finite
    double interval = 2000;
    double minimum = 1, maximum = 1;
};

struct StepRule {
    double clip = 0;  ///< largest norm of the mean's gradient; 0: no clipping
    LossScaleRule scale = {};
    bool stop_when_diverged = false;
};

/// state.terms = beta * state.terms + terms; with beta = 0, the old value is not read.
void add_terms(CpuStream& stream, double terms, double beta, const View& state);
void add_terms(CudaStream& stream, double terms, double beta, const View& state);

/// state.seed = the power of two nearest to state.scale / state.terms, with at least one term: backward's seed for all
/// micro-batches of a step, called after the first one's terms were added.
void begin_step(CpuStream& stream, const View& state);
void begin_step(CudaStream& stream, const View& state);

/// Decides about the step: taken if loss and gradients are finite and there are terms, else skipped; diverged if they
/// are not finite and the loss scale can't be lowered. Writes state.multiplier and row state.ended % rows of
/// `outcomes`, then updates the loss scale and state.ended. `state` is a contiguous f64 array with one element per
/// field of its struct, `outcomes` one of [rows, elements of a StepOutcome].
void end_step(CpuStream& stream, const StepRule& rule, const View& state, const View& outcomes);
void end_step(CudaStream& stream, const StepRule& rule, const View& state, const View& outcomes);

/// steps += 1 unless the multiplier is 0 or NaN, in which case optimizers skip the step. Both are one f64.
void count_step(CpuStream& stream, const View& multiplier, const View& steps);
void count_step(CudaStream& stream, const View& multiplier, const View& steps);

}  // namespace headroom::kernels
