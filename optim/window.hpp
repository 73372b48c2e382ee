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
//     const StepResult result = window.step(1e-3);  // result.loss is the mean per term
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
    /// are negative or not finite; OutOfMemory.
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
    /// do its step, unless loss or gradients are not finite. Reads the loss and the norm from the device, once. A new
    /// window begins with the next `accumulate`; until then gradients can be looked at. Errors: Error if nothing was
    /// accumulated, or a micro-batch failed and was not retried.
    StepResult step(double learning_rate);

    /// Drops what was accumulated since the last step.
    void reset();

    /// What was accumulated since the last step.
    double terms() const { return terms_; }
    std::int64_t micro_batches() const { return micro_batches_; }

    const LossScale& loss_scale() const { return options_.scale; }
    /// From a checkpoint. Errors: Error inside of a window, or as LossScale::set_state.
    void set_loss_scale(const LossScale::State& state);

  private:
    enum class Phase : std::uint8_t { ready, running, retry, broken };

    void run(MicroBatch (*call)(const void*), const void* work);
    MicroBatch forward(MicroBatch (*call)(const void*), const void* work);
    Array reading(int index, const Shape& shape) const;
    void choose_seed(double first_terms);
    StepResult measure();
    void check_not_broken() const;
    void close();

    Parameters& parameters_;
    Optimizer& optimizer_;
    WindowOptions options_;
    Array readings_;  ///< f64 [2]: the loss's sum, the gradients' sum of squares
    Phase phase_ = Phase::ready;
    std::int64_t micro_batches_ = 0;
    double terms_ = 0;
    double seed_ = 1;
};

}  // namespace headroom
