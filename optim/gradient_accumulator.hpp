#pragma once
// One optimizer step out of any number of micro-batches. A micro-batch is a callable that returns a `Loss`: a sum and
// its number of terms. Sums and terms are added up, and divided once, inside the optimizer's kernel: uneven
// micro-batches, also with a short last one, give exactly the step of the big batch. Memory: with one micro-batch,
// gradients exist from its backward pass on; with more, all of them exist during the later forward passes, so that
// eight take the memory of two. Not for a loss that is averaged already: make a `Loss` of its sum.
//
//     optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
//     for (int i = 0; i < 8; ++i) {
//         accumulator.accumulate([&] {
//             const Batch& batch = *loader.next();
//             return model.loss(batch.tokens, batch.targets);
//         });
//     }
//     accumulator.step(1e-3);
//     fmt::print("{}\n", accumulator.result().loss);  // the mean per term
//
// `accumulate` and `step` only queue work. The device decides whether a step is taken, clipped or skipped, and about
// the loss scale (kernels/step_control); `result` waits for the device, so call it now and then only.
//
// The callable's locals are destroyed before its backward pass begins; its captures live on. Backward is seeded with
// the power of two next to loss scale / terms of the first micro-batch, so that halves neither overflow nor underflow
// on the way; powers of two change no digit of a gradient, and the optimizer's kernel applies the exact remainder.
#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include <headroom/core/loss.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/optim/internal/step_graphs.hpp>
#include <headroom/optim/loss_scale.hpp>
#include <headroom/optim/optimizer.hpp>

namespace headroom::optim {

struct GradientAccumulatorOptions {
    double clip = 0;       ///< largest norm of the mean's gradient; 0: no clipping
    LossScale scale = {};  ///< off unless LossScale::dynamic()
    /// After a step that diverged, all later ones are skipped and reported as diverged: the parameters stay as they
    /// were, however late the results are read.
    bool stop_when_diverged = false;
    std::int64_t kept_results = 1;  ///< the number of steps whose results are kept for `results`
    /// Gradients stay after `step`, for inspection, until the next `accumulate`. If false, `step` gives their memory
    /// back.
    bool keep_gradients = false;
};

struct StepResult {
    double loss = 0;           ///< mean per term, over the step; 0 if there were no terms
    double gradient_norm = 0;  ///< of the mean's gradient, over all trained parameters, before clipping
    double terms = 0;          ///< over the step
    double multiplier = 1;     ///< the mean's gradient is `Tensor::grad` times this
    bool finite = true;        ///< loss and gradients were finite; if not, the step was skipped
    bool skipped = false;      ///< nothing was updated: not finite, or no terms
    bool diverged = false;     ///< not finite, and a smaller loss scale can't help: stop
};

class GradientAccumulator {
  public:
    /// The three live as long as the accumulator. Errors: Error if the optimizer is of other parameters, or for options
    /// that are negative or not finite, or no kept result; OutOfMemory.
    GradientAccumulator(Parameters& parameters, Optimizer& optimizer, GradientAccumulatorOptions options = {});
    GradientAccumulator(const GradientAccumulator&) = delete;
    GradientAccumulator& operator=(const GradientAccumulator&) = delete;

    /// Runs `work`, which returns a `Loss`, then backward, which adds to the gradients of this step. The first call of
    /// a step drops older gradients. Nothing is read back from the device. Consumes the tape. Errors: those of `work`,
    /// or Error for a loss that can't be used (no gradient, another context): the ops that it recorded are then
    /// forgotten, the random state is as before, the gradients so far stay valid, and the accumulator waits for a retry
    /// or `reset`. Those of backward: the gradients of this step are then lost, and everything but `reset` is refused.
    template <std::invocable Work>
    requires std::same_as<std::invoke_result_t<Work&>, Loss>
    void accumulate(Work&& work) { run(std::ref(work)); }

    /// The same for a micro-batch whose inputs are given: calls `work(inputs...)`. With `ComputeOptions::graphs` on a
    /// GPU, the second micro-batch of a kind (shapes and dtypes of the inputs, type of the callable, place in its step)
    /// is captured as a CUDA graph, and from then on `work` is not called any more: the graph reads the inputs and
    /// repeats the captured work. So `work` may depend on its inputs alone: branches, and numbers from the host such as
    /// a `Loss`'s terms, stay as they were at the capture, and a tensor that it stores elsewhere has the values of the
    /// last launch. Micro-batches that a graph can't contain (with `from_host` or `item`) run without one, and
    /// `graph_refusal` says why.
    template <std::size_t N, class Work>
    void accumulate(std::array<Tensor, N> inputs, Work&& work) {
        const auto call = [&work](std::span<Tensor> given) -> Loss {
            std::array<Tensor, N> own;
            std::move(given.begin(), given.end(), own.begin());
            return std::apply(work, std::move(own));
        };
        run_kind(inputs, type_of<Work>(), call);
    }
    /// The same for any number of inputs: `work(const std::vector<Tensor>&)`.
    template <class Work>
    void accumulate(std::vector<Tensor> inputs, Work&& work) {
        const auto call = [&work](std::span<Tensor> given) -> Loss {
            return work(
                std::vector<Tensor>(std::make_move_iterator(given.begin()), std::make_move_iterator(given.end())));
        };
        run_kind(inputs, type_of<Work>(), call);
    }
    /// Why a micro-batch or a step could not be captured as a graph; empty if all could, or graphs are off.
    std::string graph_refusal() const;

    /// Ends the step: zero-fills the gradients that nothing reached, takes their norm, clips, lets the optimizer do its
    /// step unless loss or gradients are not finite, and gives the gradients' memory back. Nothing is read back from
    /// the device. The next `accumulate` begins a new step. Errors: Error if nothing was accumulated, a micro-batch
    /// failed and was not retried, or the learning rate is negative or not finite. Those of the optimizer, and of the
    /// device on the way: everything but `reset` is then refused, and some parameters may have been updated.
    void step(double learning_rate);

    /// The result of the last step. Waits until the device has done it. A dry context gives zeros. Errors: Error before
    /// the first step.
    StepResult result() const;
    /// The results of the steps since the last call, from first to last; the last `kept_results` if there are more.
    /// Leaves the results of the last `leave` steps for later calls. Waits for the device once, and not for the steps
    /// that are left: while the host reads, a GPU goes on with these.
    std::vector<StepResult> results(std::int64_t leave = 0);
    /// The number of steps whose results are unread.
    std::int64_t unread() const { return unread_; }

    /// Drops the gradients and terms since the last step.
    void reset();

    /// The number of micro-batches since the last step.
    std::int64_t micro_batches() const { return micro_batches_; }

    /// The loss scale. Waits for the device; in a dry context it is the scale that was set.
    LossScale loss_scale() const;

    /// "accumulator.loss_scale" and "accumulator.good_steps"; the name of the parameters, if they have one, follows
    /// "accumulator". Errors: Error if something was accumulated since the last step: only whole steps can be saved.
    StateDict state_dict() const;
    /// Errors: Error if something was accumulated since the last step, or as LossScale::set_state.
    void restore(const StateValues& values);

  private:
    enum class Phase : std::uint8_t { ready, running, retry, broken };

    using Forward = std::function<Loss()>;
    /// By which a graph is known.
    template <class Work>
    static std::type_index type_of() {
        using Type = std::remove_cvref_t<Work>;
        static_assert(std::is_class_v<Type> && !std::is_same_v<Type, Forward>,
                      "a graph is known by the type of its callable: give a lambda or a class of its own");
        return typeid(Type);
    }
    void run(const Forward& work);
    void run_kind(std::span<Tensor> inputs, std::type_index type, const std::function<Loss(std::span<Tensor>)>& work);
    StepGraphs::Kind kind(std::type_index work, std::span<const Tensor> inputs) const;
    void capture(StepGraphs::Entry& entry, Phase failed, const std::function<void()>& work);
    void check_ready() const;
    void end_step();
    Loss forward(const Forward& work);
    void count(const Loss& loss);
    Array state(std::size_t field, const Shape& shape = {}) const;
    Array outcome(std::int64_t step) const;
    void write_loss_scale();
    void check_between_steps(const char* what) const;
    std::string value_name(std::string_view value) const;
    std::vector<double> download_outcomes(const Array& outcomes, std::int64_t last_step) const;
    StepResult read(const double* outcome) const;
    void check_not_broken() const;
    void close();

    Parameters& parameters_;
    Optimizer& optimizer_;
    GradientAccumulatorOptions options_;
    Array state_;     ///< f64: kernels::StepState
    Array outcomes_;  ///< f64 [kept_results, ...]: kernels::StepOutcome of step i in row i % kept_results
    std::vector<WorkPoint> decided_;  ///< step i's outcome is there: entry i % kept_results
    std::optional<StepGraphs> graphs_;
    Phase phase_ = Phase::ready;
    std::int64_t micro_batches_ = 0;
    std::int64_t steps_ = 0;  ///< of this accumulator, skipped ones too
    std::int64_t unread_ = 0;
};

}  // namespace headroom::optim
