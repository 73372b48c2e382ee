#pragma once
// Runs a training from options to results. A rehearsal predicts the memory; then the steps run until the last one or
// Ctrl-C, with progress output, validations and checkpoints. A resumed training ends with the same bits as one that was
// never interrupted.
//
//     class Digits final : public training::DataTask<data::ImageDataset> { ... };        // data_task.hpp
//     training::Trainer trainer(training::task<Digits>(images, held_out),
//                               {.batch = 64, .epochs = 5, .save = "run.safetensors", .best = "best.safetensors"});
//     trainer.after_step([](const training::Step& step) { ... });
//     Context context = Context::best();
//     const training::Report report = trainer.run(context);
//     fmt::print("{} of {} bytes\n", report.peak_bytes_allocated, report.forecast.peak.allocated);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

class Interrupt;
class LastStep;
class Session;

using headroom::IdlePolicy;

/// The prediction of a rehearsal for the whole training: steps, validations and `Task::end`. Sizes are in bytes.
struct Forecast {
    MemoryPeak peak;
    std::size_t parameter_bytes = 0;  ///< held between steps, like optimizer state
    std::size_t optimizer_state_bytes = 0;
    std::int64_t parameters = 0;
    std::int64_t steps = 0;                   ///< of the whole training
    bool couples_samples = false;             ///< by an op or the task: smaller micro-batches change the result
    bool keeps_batch = false;                 ///< the task's samples depend on each other: no plan splits its batch
    std::string graph_refusal;                ///< why graphs can't be used, as far as a rehearsal can tell
    std::optional<double> step_seconds = {};  ///< estimated from the options' costs
    std::optional<std::uint64_t> replayed_ops = {};  ///< ops that backward recomputes per step on this rank
    /// Bytes by which memory grew per rehearsed step, if it never settled, as when a program keeps each step's loss.
    /// Each later step takes this much more, which `peak` does not include.
    std::size_t grows_by = 0;
    std::vector<std::string> policies = {};      ///< patterns of the policies in force, including the context's
    std::vector<IdlePolicy> idle_policies = {};  ///< policies without effect; only `rehearse(profile)` looks for them

    std::size_t resident_bytes() const { return parameter_bytes + optimizer_state_bytes; }
};

/// Passed to `after_step` hooks.
struct Step {
    std::int64_t number;  ///< counted from 1
    const optim::StepResult& result;
    double learning_rate;
};
struct ValidatedStep {
    std::int64_t number;
    const Validation& validation;
    bool best;  ///< its loss is the lowest so far
};

/// The chosen plan and statistics of the search.
struct Planned {
    plan::Plan plan = {};
    std::size_t floor_bytes = 0;               ///< the smallest feasible budget
    std::size_t keep_all_bytes = 0;            ///< bytes reserved by the options if nothing is recomputed
    std::size_t simulated = 0, rehearsed = 0;  ///< plans simulated and rehearsed
    double seconds = 0;                        ///< spent on planning
    std::string explanation = {};              ///< `plan::Planner::explain`
};

/// Counters of the host's work in one step.
struct StepCounts {
    std::uint64_t replayed_ops = 0;  ///< recomputed by backward
    std::int64_t launches = 0;       ///< on a GPU: launches of Headroom's kernels and of graphs
    std::int64_t host_waits = 0;     ///< on a GPU: times that the host waited for it
    std::uint64_t sent_bytes = 0;    ///< to other processes
    std::uint64_t exchanges = 0;     ///< collectives with other processes
};

/// One rank's memory and communication.
struct RankReport {
    std::size_t peak_bytes_allocated = 0, peak_bytes_reserved = 0;
    std::size_t predicted_bytes_allocated = 0, predicted_bytes_reserved = 0;
    std::size_t parameter_bytes = 0, optimizer_state_bytes = 0;
    std::uint64_t sent_bytes = 0, exchanges = 0;  ///< per step
    double seconds_waited = 0;                    ///< for other ranks, in total
};

struct Report {
    Forecast forecast;
    std::int64_t steps = 0;                ///< steps done, including those before a resume
    bool complete = false;                 ///< true unless a signal or `stop_after` ended it early
    int signal = 0;                        ///< the signal that ended it early, or 0
    std::optional<double> train_loss;      ///< mean of the last hundred finite steps
    std::optional<Validation> validation;  ///< after the last step, if it was reached
    double rate = 0;                       ///< `unit`s per second
    std::optional<double> step_seconds;    ///< median, without the first steps
    StepCounts last_step;
    std::optional<Planned> planned;       ///< with a budget
    std::optional<double> loading_share;  ///< fraction of the steps' time spent waiting for batches
    std::size_t peak_bytes_allocated = 0;
    std::size_t peak_bytes_reserved = 0;
    std::optional<std::size_t> used;  ///< `unaccounted_device_bytes` after the last step
    std::string graph_refusal;        ///< why some work did not run as graphs; empty if all did
    std::string state_sha256;         ///< of parameters, optimizer state and random state
    ComputeOptions compute;           ///< of `run`, with the fitted scratch budget
    std::vector<RankReport> ranks;    ///< by rank, on every rank; empty with one process
};

using MakeContext = std::function<Context&(const Profile& profile)>;

class Trainer {
  public:
    Trainer(MakeTask task, TrainerOptions options) : task_(std::move(task)), options_(std::move(options)) {}

    /// Calls `hook` for each step once its result is known: on a GPU, some steps later.
    void after_step(std::function<void(const Step&)> hook) { after_step_.push_back(std::move(hook)); }
    void after_validation(std::function<void(const ValidatedStep&)> hook) {
        after_validation_.push_back(std::move(hook));
    }
    /// Calls `hook` in `run` with the plan that `run` has made, before the plan is rehearsed.
    void after_plan(std::function<void(const Planned&)> hook) { after_plan_.push_back(std::move(hook)); }
    /// Calls `hook` before lines about the data or about steps are printed, and prints the lines that it returns first.
    void news(std::function<std::vector<std::string>()> hook) { news_.push_back(std::move(hook)); }

    /// Plans if there is a budget, then rehearses, then trains. A dry context is only rehearsed. Errors: as `plan`,
    /// `rehearse` and `train`; Error if the options ask for a fitted scratch budget, which needs the overload below.
    Report run(Context& context);
    /// Calls `make_context` with the profile once the plan and the scratch budget are known, and trains on the context
    /// that it returns, which must outlive the training. Without `make_context` it only rehearses.
    Report run(Profile profile, const MakeContext& make_context);

    /// The fastest plan within `TrainerOptions::budget`. With several processes all use the same plan, and none exceeds
    /// the budget. Errors: plan::BudgetTooSmall; Error without a budget, or if the options already recompute something;
    /// errors of the task.
    Planned plan(const Profile& profile) const;
    /// A planner that serves any budget from one search. Errors: as `plan`.
    std::unique_ptr<plan::Planner> planner(const Profile& profile) const;
    /// Runs a few throw-away steps under several plans to time each op and the rest of a step. The plans take turns,
    /// `rounds` times. Stays within the budget, if there is one. Use a separate context: memory that calibration leaves
    /// reserved would count in the training. Errors: as `plan`; Error for a context with graphs; errors of the steps.
    plan::Costs calibrate(Context& context, std::int64_t rounds = 3) const;
    /// Sets the cost model for later plans.
    void use(plan::Costs costs) { options_.costs = std::move(costs); }
    /// Applies the plan to the options.
    void apply(const plan::Plan& plan);
    /// Checks that an existing plan fits this training. Errors: Error if the plan is for a different program, naming
    /// the first op that differs; Error if the training to resume has a different micro-batch size.
    void check(const plan::Plan& plan, const Profile& profile) const;
    /// Applies and returns the plan that the checkpoint to resume was saved with, if there is one. `run` calls this if
    /// the options set neither a budget nor recomputation. Errors: Error if the file or its plan is damaged, or if the
    /// plan is for a different program.
    std::optional<plan::Plan> apply_saved(const Profile& profile);

    /// Runs the first steps, a validation and `Task::end` on a dry context with this profile. With `history`, writes
    /// the memory history of this rehearsal. Errors: OutOfMemory if the profile's limit or device is too small: its
    /// report has the bytes that the whole training needs, and its message the options that fit, found by further
    /// rehearsals; errors of the task.
    Forecast rehearse(const Profile& profile, bool history = false) const;
    /// Rehearses on the caller's dry context. Does not search for options that fit; the forecast has no times and no
    /// counts of ops.
    Forecast rehearse(Context& dry) const;
    /// Predicts the memory of each of `profile.ranks` processes; measured fields stay 0. Ranks that do the same work
    /// are rehearsed once. Errors: as `rehearse`.
    std::vector<RankReport> rehearse_ranks(Profile profile) const;

    /// Trains after a rehearsal. With several ranks, all call it: rank 0 prints and writes files, hooks run on every
    /// rank. Errors: Error if the loss or the gradients are not finite, naming the step and the module; FileError for a
    /// file that can't be read or written; OutOfMemory if other processes use the device, with the options that fit
    /// alongside them.
    Report train(Context& context, const Forecast& forecast);

    const TrainerOptions& options() const { return options_; }

  private:
    class Reporter;
    /// The rank that prints and writes files.
    static bool is_first(const Context& context);
    /// The title of a memory history, such as "recompute blocks".
    std::string title() const;
    bool run_steps(Session& session, Reporter& reporter, const Interrupt* interrupt, LastStep* last_step) const;
    std::optional<Planned> plan_or_saved(const Profile& profile, bool says);
    void announce(const Forecast& forecast) const;
    void announce_validations(const Session& session) const;
    Report train_session(Context& context) const;
    Report train_as_told(Context& context, const Forecast& forecast) const;
    void check_program(const plan::Plan& plan, const Profile& profile) const;
    std::size_t reserved_by_any(const plan::Plan& plan, const Profile& profile) const;
    std::size_t least_of_all(plan::Planner& planner, const Profile& profile) const;

    MakeTask task_;
    TrainerOptions options_;
    std::vector<std::function<void(const Step&)>> after_step_;
    std::vector<std::function<void(const ValidatedStep&)>> after_validation_;
    std::vector<std::function<void(const Planned&)>> after_plan_;
    std::vector<std::function<std::vector<std::string>()>> news_;
};

}  // namespace headroom::training
