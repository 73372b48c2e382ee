#pragma once
// Combines any number of micro-batches into one optimizer step. A micro-batch is a callable that returns a `Loss`: a
// sum and its number of terms. Sums and terms are accumulated and divided once, inside the optimizer's kernel, so
// uneven micro-batches, including a short last one, give the step of the whole batch. The exceptions are batch norm and
// losses over pairs of samples, which see only the samples of their micro-batch, and random draws (dropout,
// augmentation), which differ between micro-batches. Memory: with one micro-batch, gradients exist from its backward
// pass on; with more, all gradients exist during the later forward passes, so eight micro-batches take the memory of
// two. Not for a loss that is already averaged: make a `Loss` from its sum.
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
// `accumulate` and `step` only queue work. The device decides whether a step is taken, clipped or skipped, and adjusts
// the loss scale (kernels/step_control). `result` waits for the device, so call it only now and then.
//
// The callable's locals are destroyed before its backward pass begins; its captures live on. Backward is seeded with
// the power of two nearest to loss scale / terms of the first micro-batch, so that f16 and bf16 gradients neither
// overflow nor underflow. Powers of two change no digit of a gradient, and the optimizer's kernel applies the exact
// remainder.
//
// With several ranks, all ranks do a step together. Call `begin_step` with the number of micro-batches over all ranks,
// and accumulate while `wants_more`. Rank r runs micro-batches r, r + ranks, r + 2 ranks and so on. Random draws, the
// seed of backward and the sums of losses follow these numbers. Each rank sums the gradients of its own micro-batches.
// In the last round the ranks' sums are added in rank order, so that all ranks do the same step, bit for bit. With
// `Shard::gradients`, each micro-batch's gradients go to their owners as backward completes them. The owners add them
// in the order of micro-batches, so the bits are the same with any number of ranks, including one.
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
#include <headroom/optim/loss_scale.hpp>
#include <headroom/optim/optimizer.hpp>
#include <headroom/optim/step_result.hpp>

namespace headroom::optim {

class GradientExchange;
class StepGraphs;
struct StepGraphEntry;
struct StepGraphKind;
class StepLedger;

struct GradientAccumulatorOptions {
    double clip = 0;       ///< largest gradient norm of the mean loss; 0: no clipping
    LossScale scale = {};  ///< off unless LossScale::dynamic()
    /// After a diverged step all later ones are skipped and reported as diverged, so the parameters stay as they were,
    /// however late the results are read.
    bool stop_when_diverged = false;
    std::int64_t kept_results = 1;  ///< the number of steps whose results are kept for `results`
    /// Keeps gradients after `step`, for inspection, until the next `accumulate`. They are sums; multiplied by
    /// `StepResult::multiplier`, they are the gradients of the mean loss. If false, `step` frees their memory.
    bool keep_gradients = false;
    /// Names of the figures that steps report besides the loss, such as its terms or an accuracy. See `figure`.
    std::vector<std::string> figures = {};
};

/// A step, announced by `begin_step` before its first micro-batch.
struct StepPlan {
    std::int64_t micro_batches = 1;  ///< over all ranks
    double learning_rate = 0;
};

/// The work of a micro-batch that may run as a CUDA graph, made by `GradientAccumulator::graph`. Copies share one work.
class GraphedWork {
  private:
    friend class GradientAccumulator;
    using Call = std::function<Loss(std::span<Tensor>)>;
    explicit GraphedWork(Call call) : call_(std::make_shared<const Call>(std::move(call))) {}

    std::shared_ptr<const Call> call_;
};

class GradientAccumulator {
  public:
    /// The context, `parameters` and `optimizer` must outlive the accumulator. Errors: Error if the optimizer has other
    /// parameters, for options that are negative or not finite, if `kept_results` is 0, or if sharded gradients are
    /// combined with `keep_gradients` or graphs; OutOfMemory.
    GradientAccumulator(Parameters& parameters, Optimizer& optimizer, GradientAccumulatorOptions options = {});
    ~GradientAccumulator();
    GradientAccumulator(const GradientAccumulator&) = delete;
    GradientAccumulator& operator=(const GradientAccumulator&) = delete;

    /// Announces the next step, so that the last backward pass is known as such: only then does `on_complete` call its
    /// listener. Call `accumulate` that many times afterwards, then `step()` without a learning rate. Errors: Error if
    /// something was accumulated since the last step, for fewer micro-batches than ranks, or as `step` for the learning
    /// rate.
    void begin_step(const StepPlan& plan);
    /// Whether this rank still owes micro-batches to the announced step; false if no step was announced.
    bool wants_more() const { return missing() > 0; }
    /// The number of micro-batches that this rank still owes; 0 if no step was announced.
    std::int64_t missing() const { return plan_ ? own_micro_batches() - micro_batches_ : 0; }
    /// For rehearsals: counts micro-batches without running them, when they would leave memory as it is now. Errors:
    /// Error unless the context is dry and at least this many are missing.
    void skip(std::int64_t micro_batches);
    /// Sets a listener for segments of gradients. During the last backward pass of an announced step, the host calls it
    /// for each segment as soon as the segment's gradients are complete; gradients that no micro-batch of the step has
    /// reached are left out. It replaces the listener of Parameters::on_segment_complete. Work that the listener queues
    /// runs before the rest of that backward pass. With several ranks, each rank calls it in its own last backward
    /// pass, with its own sums. A CUDA graph of the last micro-batch contains the work that the listener queued; the
    /// listener is not called again. An empty listener removes it. Errors: Error with `Shard::gradients`, whose
    /// gradients are gone by then.
    void on_complete(std::function<void(const GradientSegment&)> listener);

    /// Runs `work`, which returns a `Loss`, then backward, which adds to the gradients of this step. The first call of
    /// a step drops older gradients. Nothing is read back from the device. Consumes the tape. Errors: whatever `work`
    /// throws, or Error for a loss that can't be used (no gradient, another context); the recorded ops are then
    /// dropped, the random state is restored, the gradients so far stay valid, and the accumulator waits for a retry or
    /// `reset`. Errors of backward; the gradients of this step are then lost, and everything but `reset` is refused.
    /// Error for more micro-batches than announced or, with several ranks, if no step was announced.
    template <std::invocable Work>
    requires std::same_as<std::invoke_result_t<Work&>, Loss>
    void accumulate(Work&& work) { run(std::ref(work)); }

    /// Wraps `work`, a function of the inputs that `accumulate` passes: `work(const std::vector<Tensor>&)` or, given
    /// their number, `graph<2>(work)` for `work(Tensor, Tensor)`. With `ComputeOptions::graphs` on a GPU, the second
    /// micro-batch of a kind (shapes and dtypes of the inputs, place in the step) is captured as a CUDA graph. From
    /// then on the graph runs on the new inputs and `work` is not called again. So `work` may depend on its inputs
    /// only: its branches and host numbers are frozen at the capture, and a tensor that it stores elsewhere has the
    /// values of the last launch. Calls that a graph can't contain (`from_host`, `item`), or a `Loss` whose host-side
    /// number of terms differs between the first run and the capture, make this kind run without a graph;
    /// `graph_refusal` says why. Without graphs, `work` is called each time.
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
    /// Runs a graphed work on these inputs as a micro-batch. Errors: as above; Error if an input belongs to another
    /// context, or if `work` takes a different number of inputs.
    void accumulate(const GraphedWork& work, std::span<Tensor> inputs);
    void accumulate(const GraphedWork& work, std::vector<Tensor> inputs) { accumulate(work, std::span(inputs)); }
    template <std::size_t N>
    void accumulate(const GraphedWork& work, std::array<Tensor, N> inputs) {
        accumulate(work, std::span<Tensor>(inputs));
    }
    /// Call it within a micro-batch to report its part of a figure named in the options: a sum with its own number of
    /// terms. `StepResult::figures` has the step's mean, which like the loss does not depend on how samples are split
    /// into micro-batches. Takes no part in backward and reads nothing back from the device. A second call for the same
    /// name replaces the first. Errors: Error for an unknown name, outside of a micro-batch, or for a figure of another
    /// context.
    void figure(std::string_view name, const Loss& figure);

    /// Why a micro-batch or a step could not be captured as a graph; empty if all could, or if graphs are off.
    std::string graph_refusal() const;

    /// Ends the step: zero-fills the gradients that nothing reached, computes their norm, clips, runs the optimizer
    /// unless the loss or the gradients are not finite, and frees the gradients. Nothing is read back from the device.
    /// The next `accumulate` begins a new step. Errors: Error if nothing was accumulated, if a micro-batch failed and
    /// was not retried, if the learning rate is negative or not finite, if the step was announced (it has a learning
    /// rate already), or, unless gradients are exchanged or sharded, if no parameter has a gradient. Errors of the
    /// optimizer and of the device; everything but `reset` is then refused, and some parameters may have been updated.
    void step(double learning_rate);
    /// Ends an announced step. Errors: as above; Error if no step was announced or a micro-batch is missing.
    void step();

    /// The result of the last step. Waits until the device has finished it. Zeros in a dry context. Errors: Error
    /// before the first step.
    StepResult result() const;
    /// The results of the steps since the last call, oldest first; at most the last `kept_results`. The results of the
    /// last `leave` steps are left for later calls. Waits for the device once, but not for the steps left: a GPU works
    /// on these while the host reads the results.
    std::vector<StepResult> results(std::int64_t leave = 0);
    /// The number of steps whose results are unread.
    std::int64_t unread() const;

    /// Drops the gradients and terms accumulated since the last step.
    void reset();

    /// The number of this rank's micro-batches since the last step.
    std::int64_t micro_batches() const { return micro_batches_; }

    /// Reads the loss scale from the device and waits for it; in a dry context, the scale that was set.
    LossScale loss_scale() const;

    /// Values "accumulator.loss_scale" and "accumulator.good_steps"; if the parameters have a name, that name follows
    /// "accumulator". Errors: Error if something was accumulated since the last step: only whole steps can be saved.
    StateDict state_dict() const;
    /// Errors: Error if something was accumulated since the last step, or as LossScale::set_state.
    void restore(const StateValues& values);

  private:
    enum class Phase : std::uint8_t { ready, running, retry, broken };

    using Forward = std::function<Loss()>;
    void run(const Forward& work);
    StepGraphKind kind(const void* work, std::span<const Tensor> inputs) const;
    void capture(StepGraphEntry& entry, Phase failed, const std::function<void()>& work);
    void check_ready() const;
    static void check_inputs(std::size_t taken, std::size_t given);
    bool in_last() const { return plan_ && micro_batches_ + 1 == own_micro_batches(); }
    int ranks() const { return group_ ? group_->ranks() : 1; }
    std::int64_t own_micro_batches() const;
    int present(std::int64_t round) const;
    bool exchanges() const;
    void listen();
    void participate_in_last_round();
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
    Group* group_;  ///< null with one process
    GradientAccumulatorOptions options_;
    std::unique_ptr<StepLedger> ledger_;
    std::unique_ptr<StepGraphs> graphs_;          ///< null without graphs
    std::unique_ptr<GradientExchange> exchange_;  ///< null unless gradients are exchanged or sharded
    std::function<void(const GradientSegment&)> listener_;
    std::optional<StepPlan> plan_;  ///< of the current step, if it was announced
    Phase phase_ = Phase::ready;
    std::int64_t micro_batches_ = 0;                 ///< of this rank
    bool numbered_ = false;                          ///< the memory history has this step
    std::uint64_t first_counter_ = 0;                ///< the random counter of the step's micro-batch 0
    std::vector<std::optional<double>> host_terms_;  ///< of the last micro-batch
};

}  // namespace headroom::optim
