#pragma once
// A training from its options to its figures: a rehearsal that predicts its memory, then steps until the last one or
// Ctrl-C, with progress, validated and saved meanwhile. A training that is resumed ends with the bits of one that was
// not interrupted.
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

/// The forecast of a rehearsal for the whole training: steps, validations and `Task::end`. Sizes are in bytes.
struct Forecast {
    MemoryPeak peak;
    std::size_t parameter_bytes = 0;  ///< between steps, as the next
    std::size_t optimizer_state_bytes = 0;
    std::int64_t parameters = 0;
    std::int64_t steps = 0;                          ///< of the whole training
    bool couples_samples = false;                    ///< an op or the task: smaller micro-batches are another training
    bool keeps_batch = false;                        ///< the task says so: no plan splits its batch
    std::string graph_refusal;                       ///< why graphs can't be used, as far as a rehearsal knows
    std::optional<double> step_seconds = {};         ///< by the options' costs
    std::optional<std::uint64_t> replayed_ops = {};  ///< that backward runs again in a step of the rank
    /// Bytes by which memory grew in each rehearsed step, where it never came to rest: the steps behind those that were
    /// rehearsed take as much more each, which the peak does not have. As where a program keeps each step's loss.
    std::size_t grows_by = 0;
    std::vector<std::string> policies = {};      ///< the patterns of those in force, the context's included
    std::vector<IdlePolicy> idle_policies = {};  ///< of these; only `rehearse` of a profile looks for them

    std::size_t resident_bytes() const { return parameter_bytes + optimizer_state_bytes; }
};

/// For hooks.
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

/// A plan for a budget, and what it was found among.
struct Planned {
    plan::Plan plan = {};
    std::size_t floor_bytes = 0;               ///< the least budget
    std::size_t keep_all_bytes = 0;            ///< what the options reserve if nothing is recomputed
    std::size_t simulated = 0, rehearsed = 0;  ///< plans
    double seconds = 0;                        ///< that planning took
    std::string explanation = {};              ///< `plan::Planner::explain`
};

/// What the host did in a step.
struct StepCounts {
    std::uint64_t replayed_ops = 0;  ///< by backward
    std::int64_t launches = 0;       ///< on a GPU, of kernels of ours and of graphs
    std::int64_t host_waits = 0;     ///< on a GPU, for it
    std::uint64_t sent_bytes = 0;    ///< to other processes
    std::uint64_t exchanges = 0;     ///< with them
};

/// One of the processes that trained together.
struct RankReport {
    std::size_t peak_bytes_allocated = 0, peak_bytes_reserved = 0;
    std::size_t predicted_bytes_allocated = 0, predicted_bytes_reserved = 0;
    std::size_t parameter_bytes = 0, optimizer_state_bytes = 0;
    std::uint64_t sent_bytes = 0, exchanges = 0;  ///< in a step
    double seconds_waited = 0;                    ///< for other processes, in all
};

struct Report {
    Forecast forecast;
    std::int64_t steps = 0;                ///< done, including steps before a resume
    bool complete = false;                 ///< true unless a signal or `stop_after` ended it early
    int signal = 0;                        ///< the signal that ended it early, or 0
    std::optional<double> train_loss;      ///< the mean of the last hundred steps that were finite
    std::optional<Validation> validation;  ///< after the last step, if that was reached
    double rate = 0;                       ///< `unit`s per second
    std::optional<double> step_seconds;    ///< the median of the steps behind the first ones
    StepCounts last_step;
    std::optional<Planned> planned;       ///< with a budget
    std::optional<double> loading_share;  ///< of the steps' time: how long they waited for their batches
    std::size_t peak_bytes_allocated = 0;
    std::size_t peak_bytes_reserved = 0;
    std::optional<std::size_t> used;  ///< `unaccounted_device_bytes`, when the last step was done
    std::string graph_refusal;        ///< why not all work was done by graphs, or empty
    std::string state_sha256;         ///< of parameters, optimizer state and random position
    ComputeOptions compute;           ///< of `run`: with the scratch budget that was fitted
    std::vector<RankReport> ranks;    ///< of all processes, on each; empty if there is one
};

using MakeContext = std::function<Context&(const Profile& profile)>;

class Trainer {
  public:
    Trainer(MakeTask task, TrainerOptions options) : task_(std::move(task)), options_(std::move(options)) {}

    /// Called after each step, but later than it: on a GPU, results come some steps after they were computed.
    void after_step(std::function<void(const Step&)> hook) { after_step_.push_back(std::move(hook)); }
    void after_validation(std::function<void(const ValidatedStep&)> hook) {
        after_validation_.push_back(std::move(hook));
    }
    /// Called by `run` with the plan that it has made, before a rehearsal by it.
    void after_plan(std::function<void(const Planned&)> hook) { after_plan_.push_back(std::move(hook)); }
    /// Called before lines about the data and about steps are printed; the lines that it returns are printed first.
    void news(std::function<std::vector<std::string>()> hook) { news_.push_back(std::move(hook)); }

    /// Plans if there is a budget, rehearses and trains. On a dry context it only rehearses. Errors: as `plan`,
    /// `rehearse` and `train`; Error if a scratch budget is to be fitted, which needs the next one.
    Report run(Context& context);
    /// The same for a context that `make_context` makes of the profile when the plan and the scratch budget are known,
    /// and that outlives the training. Without `make_context` it only rehearses.
    Report run(Profile profile, const MakeContext& make_context);

    /// The fastest plan for `TrainerOptions::budget`: the same for each of several processes, of which none takes more.
    /// Errors: plan::BudgetTooSmall; Error without a budget, or if the options recompute anything themselves; errors of
    /// the task.
    Planned plan(const Profile& profile) const;
    /// For all budgets at once: plans of one search. Errors: as `plan`.
    std::unique_ptr<plan::Planner> planner(const Profile& profile) const;
    /// Takes a few steps with each of several plans, which nobody keeps, to measure how long ops take, and what a step
    /// takes besides: in turn, `rounds` times. Keeps within the budget, if there is one. Use another context than for
    /// the training, which would find this one's memory. Errors: as `plan`; Error for a context with graphs; errors of
    /// the steps.
    plan::Costs calibrate(Context& context, std::int64_t rounds = 3) const;
    /// What plans go by from now on.
    void use(plan::Costs costs) { options_.costs = std::move(costs); }
    /// From now on the options are those of the plan.
    void apply(const plan::Plan& plan);
    /// For a plan that was made before. Errors: Error that names the first op that differs if it is for another
    /// program, or if a training that is resumed has another micro-batch.
    void check(const plan::Plan& plan, const Profile& profile) const;
    /// If the training to resume was saved with a plan, it is followed from now on, and returned. `run` does that by
    /// itself where the options have neither a budget nor a way of recomputing. Errors: Error if the file or its plan
    /// is damaged, or the plan is for another program.
    std::optional<plan::Plan> apply_saved(const Profile& profile);

    /// Runs the first steps, a validation and the end on a dry context with that profile. With `history` the memory's
    /// history describes this rehearsal. Errors: OutOfMemory if the profile's limit or device is too small: its report
    /// says how much the whole training needs, and its message which options fit, as found by rehearsals; errors of the
    /// task.
    Forecast rehearse(const Profile& profile, bool history = false) const;
    /// The same on a dry context of the caller's, without looking for what fits, and without times and ops.
    Forecast rehearse(Context& dry) const;
    /// What each of `profile.ranks` processes would take, measured by none. Those that do the same work are rehearsed
    /// once. Errors: as `rehearse`.
    std::vector<RankReport> rehearse_ranks(Profile profile) const;

    /// Trains as rehearsed. Where the context is one of several ranks, all of them call it; rank 0 prints and writes
    /// files, and hooks are called on each. Errors: Error if the loss or the gradients were not finite, naming the step
    /// and the module; FileError for a file that can't be read or written; OutOfMemory if others use the device; it
    /// says what fits beside them.
    Report train(Context& context, const Forecast& forecast);

    const TrainerOptions& options() const { return options_; }

  private:
    class Reporter;
    /// The rank that prints and writes files.
    static bool is_first(const Context& context);
    /// "recompute blocks": of a history.
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
