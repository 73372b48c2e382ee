#pragma once
// One optimizer step out of any number of micro-batches. A micro-batch is a callable that returns a `Loss`: a sum and
// its number of terms. Sums and terms are added up, and divided once, inside the optimizer's kernel: uneven
// micro-batches, also with a short last one, give the step of the big batch. The exceptions: batch norm and losses over
// pairs of samples see the samples of their micro-batch alone, and what is drawn (dropout, augmentation) is drawn anew
// in each. Memory: with one micro-batch, gradients exist from its backward pass on; with more, all of them exist during
// the later forward passes, so that eight take the memory of two. Not for a loss that is averaged already: make a
// `Loss` of its sum.
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
//
// If the context is one of several ranks, a step is all of theirs: announce it with the micro-batches of all of them,
// of which rank r has those with the numbers r, r + ranks, r + 2 ranks and so on, and accumulate while `wants_more`.
// Draws, the seed of backward and the sums of losses go by these numbers. Each rank sums the gradients of its own;
// in the last round these sums are added up in the order of ranks, so that all ranks do the same step, bit for bit.
// With `Shard::gradients` those of each micro-batch go to their owners as backward completes them, which add them up in
// the order of micro-batches: with any number of ranks the same bits, also with one.
//
//     accumulator.begin_step({.micro_batches = 8, .learning_rate = 1e-3});  // of all ranks
//     while (accumulator.wants_more()) accumulator.accumulate([&] { return model.loss(*loader.next()); });
//     accumulator.step();
#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <headroom/core/loss.hpp>
#include <headroom/optim/internal/gradient_exchange.hpp>
#include <headroom/optim/internal/step_graphs.hpp>
#include <headroom/optim/internal/step_ledger.hpp>
#include <headroom/optim/loss_scale.hpp>
#include <headroom/optim/optimizer.hpp>
#include <headroom/optim/step_result.hpp>

namespace headroom::optim {

struct GradientAccumulatorOptions {
    double clip = 0;       ///< largest norm of the mean's gradient; 0: no clipping
    LossScale scale = {};  ///< off unless LossScale::dynamic()
    /// After a step that diverged, all later ones are skipped and reported as diverged: the parameters stay as they
    /// were, however late the results are read.
    bool stop_when_diverged = false;
    std::int64_t kept_results = 1;  ///< the number of steps whose results are kept for `results`
    /// Gradients stay after `step`, for inspection, until the next `accumulate`. They are what backward has
    /// added up: times `StepResult::multiplier` they are the mean's. If false, `step` gives their memory back.
    bool keep_gradients = false;
    /// Names of what steps have figures of beside the loss: parts of it, an accuracy. See `figure`.
    std::vector<std::string> figures = {};
};

/// A step as it is announced before its first micro-batch.
struct StepPlan {
    std::int64_t micro_batches = 1;  ///< of all ranks
    double learning_rate = 0;
};

/// The work of a kind of micro-batch that may be launched as a CUDA graph: `GradientAccumulator::graph` makes it.
/// Copies are the same work.
class GraphedWork {
  private:
    friend class GradientAccumulator;
    using Call = std::function<Loss(std::span<Tensor>)>;
    explicit GraphedWork(Call call) : call_(std::make_shared<const Call>(std::move(call))) {}

    std::shared_ptr<const Call> call_;
};

class GradientAccumulator {
  public:
    /// The three live as long as the accumulator. Errors: Error if the optimizer is of other parameters, or for options
    /// that are negative or not finite, no kept result, or what sharded gradients can't have: to be kept, or graphs;
    /// OutOfMemory.
    GradientAccumulator(Parameters& parameters, Optimizer& optimizer, GradientAccumulatorOptions options = {});
    ~GradientAccumulator();
    GradientAccumulator(const GradientAccumulator&) = delete;
    GradientAccumulator& operator=(const GradientAccumulator&) = delete;

    /// Announces the next step, which is then known while its last micro-batch runs backward: `on_complete` calls its
    /// listener. Takes as many `accumulate`s, and `step()` without a learning rate. Errors: Error if something was
    /// accumulated since the last step, for fewer micro-batches than ranks, or as `step` for the learning rate.
    void begin_step(const StepPlan& plan);
    /// Whether micro-batches of this rank are missing in the step that was announced; false if none was.
    bool wants_more() const { return missing() > 0; }
    /// How many are; 0 if none was announced.
    std::int64_t missing() const { return plan_ ? own_micro_batches() - micro_batches_ : 0; }
    /// For rehearsals: counts micro-batches that are left out, since memory would lie behind them as it does now.
    /// Errors: Error unless the context is dry and so many are missing.
    void skip(std::int64_t micro_batches);
    /// In the last backward of a step that was announced, `listener` is called on the host for each segment of
    /// gradients as soon as all of them are complete, with those that no micro-batch of the step has reached left out
    /// (see Parameters::on_segment_complete, which this takes over). What it queues comes before the rest of that
    /// backward. Of several ranks, each calls it in its own last backward, with its own sums. A CUDA graph of the last
    /// micro-batch holds what the listener queued, which is not called again. Empty: none. Errors: Error with
    /// `Shard::gradients`, which are gone by then.
    void on_complete(std::function<void(const GradientSegment&)> listener);

    /// Runs `work`, which returns a `Loss`, then backward, which adds to the gradients of this step. The first call of
    /// a step drops older gradients. Nothing is read back from the device. Consumes the tape. Errors: those of `work`,
    /// or Error for a loss that can't be used (no gradient, another context): the ops that it recorded are then
    /// forgotten, the random state is as before, the gradients so far stay valid, and the accumulator waits for a retry
    /// or `reset`. Those of backward: the gradients of this step are then lost, and everything but `reset` is refused.
    /// Error for more micro-batches than the step was announced with, or, with several ranks, if it was not.
    template <std::invocable Work>
    requires std::same_as<std::invoke_result_t<Work&>, Loss>
    void accumulate(Work&& work) { run(std::ref(work)); }

    /// Makes a work of inputs that `accumulate` gives it: `work(const std::vector<Tensor>&)` or, with their number,
    /// `graph<2>(work)` for `work(Tensor, Tensor)`. With `ComputeOptions::graphs` on a GPU, its second micro-batch of a
    /// kind (shapes and dtypes of the inputs, place in the step) is captured as a CUDA graph, and from then on `work`
    /// is not called any more: the graph reads the inputs and does again what was captured. So nothing in `work` may
    /// depend on more than them: its branches, and numbers that it takes from the host, are those of the capture; and a
    /// tensor that it puts elsewhere has the values of the last launch. What a graph can't have (`from_host`, `item`),
    /// and a `Loss` whose number of terms is the host's and not the same at the capture as before, makes micro-batches
    /// of this kind run without one, and `graph_refusal` says why. Without graphs, `work` is called each time.
    template <std::size_t N = 0, class Work>
    GraphedWork graph(Work work) {
        return GraphedWork([work = std::move(work)](std::span<Tensor> given) mutable -> Loss {
            if constexpr (N == 0) {
                return work(
                    std::vector<Tensor>(std::make_move_iterator(given.begin()), std::make_move_iterator(given.end())));
            } else {
                check_inputs(N, given.size());
                std::array<Tensor, N> own;
                std::move(given.begin(), given.end(), own.begin());
                return std::apply(work, std::move(own));
            }
        });
    }
    /// A micro-batch of such a work. Errors: as above; Error if an input is of another context or `work` takes another
    /// number of them.
    void accumulate(const GraphedWork& work, std::span<Tensor> inputs);
    void accumulate(const GraphedWork& work, std::vector<Tensor> inputs) { accumulate(work, std::span(inputs)); }
    template <std::size_t N>
    void accumulate(const GraphedWork& work, std::array<Tensor, N> inputs) {
        accumulate(work, std::span<Tensor>(inputs));
    }
    /// Within a micro-batch: its share of a figure that the options name, as a sum over terms of its own. The step's is
    /// in `StepResult::figures`, the same for any way in which its samples were shared out, as the loss is. Takes no
    /// part in backward, and reads nothing back from the device. Called again for the name, it replaces. Errors: Error
    /// for another name, outside of a micro-batch, or for a figure of another context.
    void figure(std::string_view name, const Loss& figure);

    /// Why a micro-batch or a step could not be captured as a graph; empty if all could, or graphs are off.
    std::string graph_refusal() const;

    /// Ends the step: zero-fills the gradients that nothing reached, takes their norm, clips, lets the optimizer do its
    /// step unless loss or gradients are not finite, and gives the gradients' memory back. Nothing is read back from
    /// the device. The next `accumulate` begins a new step. Errors: Error if nothing was accumulated, a micro-batch
    /// failed and was not retried, the learning rate is negative or not finite, or, unless gradients are exchanged or
    /// sharded, if none of the parameters has a gradient. Those of the optimizer, and of the
    /// device on the way: everything but `reset` is then refused, and some parameters may have been updated. Error for
    /// a step that was announced: its learning rate is known.
    void step(double learning_rate);
    /// Ends a step that was announced. Errors: as above; Error if none was, or if a micro-batch of it is missing.
    void step();

    /// The result of the last step. Waits until the device has done it. A dry context gives zeros. Errors: Error before
    /// the first step.
    StepResult result() const { return ledger_.result(); }
    /// The results of the steps since the last call, from first to last; the last `kept_results` if there are more.
    /// Those of the last `leave` steps are left for later calls. Waits for the device once, and for no step that is
    /// left: while the host reads the results, a GPU goes on with the steps that are left.
    std::vector<StepResult> results(std::int64_t leave = 0) { return ledger_.results(leave); }
    /// The number of steps whose results are unread.
    std::int64_t unread() const { return ledger_.unread(); }

    /// Drops the gradients and terms since the last step.
    void reset();

    /// The number of this rank's micro-batches since the last step.
    std::int64_t micro_batches() const { return micro_batches_; }

    /// The loss scale on the device, for which this waits; in a dry context the one that was set.
    LossScale loss_scale() const { return ledger_.loss_scale(); }

    /// "accumulator.loss_scale" and "accumulator.good_steps"; the name of the parameters, if they have one, follows
    /// "accumulator". Errors: Error if something was accumulated since the last step: only whole steps can be saved.
    StateDict state_dict() const;
    /// Errors: Error if something was accumulated since the last step, or as LossScale::set_state.
    void restore(const StateValues& values);

  private:
    enum class Phase : std::uint8_t { ready, running, retry, broken };

    using Forward = std::function<Loss()>;
    void run(const Forward& work);
    StepGraphs::Kind kind(const void* work, std::span<const Tensor> inputs) const;
    void capture(StepGraphs::Entry& entry, Phase failed, const std::function<void()>& work);
    void check_ready() const;
    static void check_inputs(std::size_t taken, std::size_t given);
    bool in_last() const { return plan_ && micro_batches_ + 1 == own_micro_batches(); }
    int ranks() const { return group_ ? group_->ranks() : 1; }
    std::int64_t own_micro_batches() const;
    int present(std::int64_t round) const;
    bool exchanges() const;
    void listen();
    void attend_last_round();
    void finish_step(double learning_rate);
    void end_step();
    Loss forward(const Forward& work);
    void check_between_steps(const char* what) const;
    std::string value_name(std::string_view value) const;
    void check_not_broken() const;
    void close();
    void number_step();

    Parameters& parameters_;
    Optimizer& optimizer_;
    Group* group_;  ///< null alone
    GradientAccumulatorOptions options_;
    StepLedger ledger_;
    std::optional<StepGraphs> graphs_;
    std::optional<GradientExchange> exchange_;
    std::function<void(const GradientSegment&)> listener_;
    std::optional<StepPlan> plan_;  ///< of the step that goes on, if it was announced
    Phase phase_ = Phase::ready;
    std::int64_t micro_batches_ = 0;    ///< of this rank
    bool numbered_ = false;             ///< the history knows of this step
    std::uint64_t first_counter_ = 0;   ///< the random counter of the step's micro-batch 0
    StepGraphs::HostTerms host_terms_;  ///< of the last micro-batch
};

}  // namespace headroom::optim
