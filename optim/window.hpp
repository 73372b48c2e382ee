#pragma once
// One optimizer step out of any number of micro-batches, in the memory of one. A micro-batch is a callable that returns
// a summed loss and its number of terms (tokens, pixels, samples); the window divides once, by the total, inside the
// optimizer's kernel. So uneven micro-batches and a short last window are exactly the big batch. Not for a loss that is
// averaged already: its terms would be weighted wrongly.
//
//     Window window(parameters, optimizer, {.clip = 1.0});
//     for (int i = 0; i < 8; ++i) {
//         window.accumulate([&] {
//             const Batch batch = loader.next();
//             return MicroBatch{model.loss(batch.tokens, batch.targets), terms};
//         });
//     }
//     window.step(1e-3);
//     fmt::print("{}\n", window.result().loss);  // the mean per term
//
// `accumulate` and `step` only queue work. Whether a step is taken, clipped or skipped, and the loss scale, are decided
// in the device's memory (kernels/step_control); `result` waits for the device, so ask for it now and then only.
//
// Before its first micro-batch a window forgets older gradients, at no cost: the first write to each overwrites. The
// callable's locals die before its backward pass begins; what it captured lives on.
//
// Backward is seeded with the power of two next to scale / expected terms, so that halves neither overflow nor
// underflow on the way; powers of two change no digit of a gradient, and the optimizer's kernel applies the exact
// remainder.
#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include <headroom/core/transfer.hpp>
#include <headroom/optim/loss_scale.hpp>
#include <headroom/optim/optimizer.hpp>

namespace headroom {

struct MicroBatch {
    Tensor loss_sum;   ///< one element: the sum over all terms
    double terms = 1;  ///< how many; 0 is allowed (everything was masked)
};

struct WindowOptions {
    double clip = 0;            ///< largest norm of the mean's gradient; 0: no clipping
    LossScale scale = {};       ///< off unless LossScale::dynamic()
    double expected_terms = 0;  ///< of a window, for the seed alone; 0: those of its first micro-batch
    /// After a step that diverged, all later ones are skipped and reported as diverged: so parameters stand as they did
    /// then, however late somebody looks.
    bool stop_when_diverged = false;
    std::int64_t kept_results = 1;  ///< of how many steps `results` can tell
};

struct StepResult {
    double loss = 0;           ///< mean per term, over the window; 0 if there were no terms
    double gradient_norm = 0;  ///< of the mean's gradient, over all trained parameters, before clipping
    double terms = 0;          ///< over the window
    double multiplier = 1;     ///< the mean's gradient is this times what `Tensor::grad` shows
    bool finite = true;        ///< loss and gradients; if not, the step was skipped
    bool skipped = false;      ///< nothing was updated: not finite, or no terms
    bool diverged = false;     ///< not finite, and a smaller loss scale can't help: stop
};

class Window {
  public:
    /// The three live as long as the window. Errors: Error if the optimizer is of other parameters, or for options that
    /// are negative or not finite, or no kept result; OutOfMemory.
    Window(Parameters& parameters, Optimizer& optimizer, WindowOptions options = {});
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    /// Runs `work` (returning a MicroBatch), then backward; adds to the window's gradients. Nothing is read back from
    /// the device. Consumes the tape. Errors: what `work` throws, or Error for a micro-batch that can't be used (no
    /// gradient, terms negative or not finite): then what it recorded is forgotten, the random state is as before,
    /// gradients so far stay valid, and the window waits for a retry, or `reset`. What backward throws: then the
    /// gradients are lost, and only `reset` helps. Error if called while a module's call is open, or in a window that
    /// only `reset` helps.
    template <class Work>
    requires std::invocable<Work&> && std::same_as<std::invoke_result_t<Work&>, MicroBatch>
    void accumulate(Work&& work) {
        using Callable = std::remove_reference_t<Work>;
        run([](const void* callable) { return (*static_cast<Callable*>(const_cast<void*>(callable)))(); },
            std::addressof(work));
    }

    /// Ends the window: zero-fills the gradients that nothing reached, takes their norm, clips, and lets the optimizer
    /// do its step, unless loss or gradients are not finite. Nothing is read back from the device. A new window begins
    /// with the next `accumulate`; until then gradients can be looked at. Errors: Error if nothing was accumulated, a
    /// micro-batch failed and was not retried, or the learning rate is negative or not finite.
    void step(double learning_rate);

    /// Of the last step. Waits for the device to have done it. A dry context gives zeros. Errors: Error before the
    /// first step.
    StepResult result() const;
    /// Of the steps since the last call, from first to last; of the last `kept_results` if they are more. Those of the
    /// last `leave` steps are left for later calls. Waits for the device, once, and for no step that is left: while the
    /// host looks at the results, a GPU goes on with what was left.
    std::vector<StepResult> results(std::int64_t leave = 0);
    /// Of how many steps `results` would tell.
    std::int64_t unread() const { return unread_; }

    /// Drops what was accumulated since the last step.
    void reset();

    /// What was accumulated since the last step.
    double terms() const { return terms_; }
    std::int64_t micro_batches() const { return micro_batches_; }

    /// As it is on the device, for which this waits; in a dry context as it was set.
    LossScale loss_scale() const;
    /// From a checkpoint. Errors: Error inside of a window, or as LossScale::set_state.
    void set_loss_scale(const LossScale::State& state);

  private:
    enum class Phase : std::uint8_t { ready, running, retry, broken };

    void run(MicroBatch (*call)(const void*), const void* work);
    MicroBatch forward(MicroBatch (*call)(const void*), const void* work);
    Array state(std::size_t field, const Shape& shape = {}) const;
    Array outcome(std::int64_t step) const;
    void begin(double first_terms);
    void write_loss_scale();
    std::vector<double> download_outcomes(const Array& outcomes, std::int64_t last_step) const;
    StepResult read(const double* outcome) const;
    void check_not_broken() const;
    void close();

    Parameters& parameters_;
    Optimizer& optimizer_;
    WindowOptions options_;
    Array state_;     ///< f64: kernels::StepState
    Array outcomes_;  ///< f64 [kept_results, ...]: kernels::StepOutcome of step i in row i % kept_results
    std::vector<WorkPoint> decided_;  ///< step i's outcome is there: entry i % kept_results
    Phase phase_ = Phase::ready;
    std::int64_t micro_batches_ = 0;
    double terms_ = 0;
    double last_terms_ = 0;
    std::int64_t steps_ = 0;  ///< of this window, skipped ones too
    std::int64_t unread_ = 0;
};

}  // namespace headroom
