#pragma once
// Finds the fastest way to train within a budget of bytes: the micro-batch size, and the ops to recompute in backward.
// A planner rehearses the training, simulates thousands of plans of its micro-batch, and rehearses the plan that it
// returns, so its peak is exact.
//
//     const plan::Workload workload{.run = [](Context& dry, const plan::MicroBatching& division) { steps(dry, division, 2); },
//                                   .division = {.batch = 32}};
//     plan::Planner planner(context.profile(), workload);
//     const plan::Plan plan = planner.fit(6'000'000'000);
//     context.policy(plan.policy);        // and train with plan.division
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/plan/plan.hpp>

namespace headroom::plan {

struct Workload {
    /// Runs a rehearsal on a dry context as docs/memory.md describes: the first steps, and a validation if there is
    /// one. The forward pass of each micro-batch must be in a `MicroBatchScope`, which `optim::GradientAccumulator`
    /// opens. Called once for each division tried and once for each plan rehearsed; it must do the same work each time.
    /// If the micro-batches of a step record different programs, such as a generator's and a discriminator's, the last
    /// one is planned (`Plan::kinds`) and the peak covers all.
    std::function<void(Context& dry, const MicroBatching& division)> run = nullptr;
    MicroBatching division = {};
    /// Whether the planner may use smaller micro-batches, and more of them per step; null: no. Called once the workload
    /// has run. Sizes that `run` rejects with an Error are left out. Splitting changes random draws (sample order,
    /// dropout) and rounding. If the samples of a micro-batch depend on each other, as in batch norm or a loss over
    /// pairs, it changes the training.
    std::function<bool()> may_split = nullptr;
    /// The model's known ways of recomputing, as patterns and policies. No plan is worse than any of them.
    std::vector<std::vector<std::pair<std::string, Policy>>> ways = {};
    /// Alternatives that `run` accepts as `MicroBatching::choice`: another dtype, an `lstm`'s checkpoints over time,
    /// another scratch budget. A plan names the one that it uses, if any.
    std::vector<std::string> choices = {};
};

/// No plan fits the budget.
class BudgetTooSmall : public Error {
  public:
    BudgetTooSmall(std::size_t budget, std::size_t least, std::size_t keep_all,
                   std::optional<std::size_t> least_split = {});
    std::size_t budget() const { return budget_; }
    std::size_t least() const { return least_; }        ///< `Planner::floor_bytes`
    std::size_t keep_all() const { return keep_all_; }  ///< `Planner::keep_all_bytes`
    /// `least` with micro-batches of one sample. Set only on request, for a workload that the planner may not split.
    std::optional<std::size_t> least_split() const { return least_split_; }

  private:
    std::size_t budget_, least_, keep_all_;
    std::optional<std::size_t> least_split_;
};

class Planner {
  public:
    /// Rehearses the workload and searches for plans that are fast under `costs`. Ops that the workload recomputes by
    /// its own policies, or by `recomputed`, stay that way; plans decide about the rest. Errors: Error for a workload
    /// that runs no backward or opens no `MicroBatchScope`; as `fit`.
    Planner(const Profile& profile, Workload workload, Costs costs);
    /// Uses assumed costs.
    Planner(const Profile& profile, Workload workload)
        : Planner(profile, std::move(workload), Costs::assumed(profile)) {}
    ~Planner();
    Planner(const Planner&) = delete;
    Planner& operator=(const Planner&) = delete;

    /// The plan with the least predicted time that reserves at most `budget` bytes. Plans for other budgets that are
    /// faster also reserve more. If keeping everything in unsplit micro-batches fits, another plan is chosen only if it
    /// saves more time than `Costs::spread`; `Plan::gain` is the saving. Errors: BudgetTooSmall; Error if the workload
    /// keeps tensors, or does not record the same program each time; errors of the workload.
    Plan fit(std::size_t budget);
    /// Plans to time so that every op is measured: per division the smallest and the fastest within the budget.
    std::vector<Plan> samples(std::size_t budget);
    /// The smallest budget for which a plan was found. It does not depend on costs.
    std::size_t floor_bytes() const { return floor_.peak_bytes_reserved; }
    /// Bytes that the workload reserves with its own micro-batch size and without recomputation.
    std::size_t keep_all_bytes() const { return keep_all_.peak_bytes_reserved; }

    /// Explains one of this planner's plans in text: for each kind of module what is kept and what is recomputed, its
    /// bytes at the peak and the time added; then what the peak consists of. "blocks.*.mlp" stands for the modules of
    /// all blocks.
    std::string explain(const Plan& plan) const;

    std::size_t plans_simulated() const { return simulated_; }
    std::size_t plans_rehearsed() const { return rehearsed_; }

  private:
    struct Divided;
    struct Option;
    Rehearsal rehearse(const Divided& divided, const std::function<void(Context&)>& prepare);
    std::unique_ptr<Divided> divided(const MicroBatching& division);
    static std::uint64_t replays_of_step(const RecordedProgram& program, const Divided& divided);
    Plan told(Plan plan, double seconds) const;
    const Plan* rehearsed(Option& option);
    const Plan* fastest(std::size_t budget, const Divided* of);
    void find_floor();

    Profile profile_;
    Workload workload_;
    Costs costs_;
    std::vector<std::unique_ptr<Divided>> divided_;
    std::vector<Option> options_;  ///< over all divisions, fastest first
    Plan floor_, keep_all_;
    std::int64_t kinds_ = 1;  ///< kinds of micro-batches in a step
    std::size_t simulated_ = 0, rehearsed_ = 0;
};

/// `Planner(profile, workload).fit(budget)`.
Plan fit(const Profile& profile, std::size_t budget, const Workload& workload);

}  // namespace headroom::plan
