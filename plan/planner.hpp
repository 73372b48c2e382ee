#pragma once
// Bytes in, training out: which micro-batch, and which ops run again in backward, so that a training stays within a
// budget and is as fast as that allows. A planner rehearses the training, simulates thousands of plans of its
// micro-batch, and rehearses the one that it answers with, so that its peak is the real one.
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
    /// Runs what docs/memory.md asks of a rehearsal on a dry context: the first steps, a validation if there is one.
    /// The forward pass of each micro-batch is in a `MicroBatchScope`, as `optim::GradientAccumulator` opens one.
    /// Called once for each division that is tried and once for each plan that is rehearsed; it must do the same each
    /// time. Where micro-batches of a step record different ops, as a generator's and a discriminator's, the last one
    /// is planned: `Plan::kinds`. The peak is that of all of them.
    std::function<void(Context& dry, const MicroBatching& division)> run = nullptr;
    MicroBatching division = {};
    /// Whether the planner may choose smaller micro-batches, and more of them for a step; null: no. Those that `run`
    /// refuses by an Error are left out. Asked once the workload has run. What is drawn then differs, the order of
    /// samples and dropout, and results by rounding; where samples of a micro-batch depend on each other, in batch norm
    /// or a loss over pairs, it is another training.
    std::function<bool()> may_split = nullptr;
    /// Ways of recomputing that are known for the model, as patterns and policies: no plan is worse than these.
    std::vector<std::vector<std::pair<std::string, Policy>>> ways = {};
    /// Names of what the workload can do in another way, which `run` is asked for: another dtype, an `lstm`'s
    /// checkpoints over time, another scratch budget. A plan says which of them it takes, if any.
    std::vector<std::string> choices = {};
};

/// No plan keeps within the budget.
class BudgetTooSmall : public Error {
  public:
    BudgetTooSmall(std::size_t budget, std::size_t least, std::size_t keep_all,
                   std::optional<std::size_t> least_split = {});
    std::size_t budget() const { return budget_; }
    std::size_t least() const { return least_; }        ///< `Planner::floor_bytes`
    std::size_t keep_all() const { return keep_all_; }  ///< `Planner::keep_all_bytes`
    /// The least in micro-batches of one sample, if the workload does not let the planner choose them and somebody
    /// asked.
    std::optional<std::size_t> least_split() const { return least_split_; }

  private:
    std::size_t budget_, least_, keep_all_;
    std::optional<std::size_t> least_split_;
};

class Planner {
  public:
    /// Rehearses the workload, and searches for plans that are fast by these costs. Errors: Error for a workload that
    /// runs no backward or opens no `MicroBatchScope`; as `fit`'s. What the workload recomputes by policies of its own,
    /// or by `recomputed`, is as it says; the plan decides about the rest.
    Planner(const Profile& profile, Workload workload, Costs costs);
    /// By costs that are assumed.
    Planner(const Profile& profile, Workload workload)
        : Planner(profile, std::move(workload), Costs::assumed(profile)) {}
    ~Planner();
    Planner(const Planner&) = delete;
    Planner& operator=(const Planner&) = delete;

    /// The plan that takes least time by prediction of those that reserve at most `budget` bytes: no other budget's
    /// plan that reserves as little is faster. One that is faster than keeping all in undivided micro-batches is so by
    /// more than `Costs::spread`, and says by how much. Errors: BudgetTooSmall; Error if the workload keeps tensors, or
    /// records another program than the first time; those of the workload.
    Plan fit(std::size_t budget);
    /// For measurements: plans within the budget that together have what its plans are made of. Of each division, the
    /// one with the least memory and the fastest.
    std::vector<Plan> samples(std::size_t budget);
    /// The least budget that a plan was found for, by bytes alone: it is the same for all costs.
    std::size_t floor_bytes() const { return floor_.peak_bytes_reserved; }
    /// What the workload reserves as it is divided, if backward runs nothing again.
    std::size_t keep_all_bytes() const { return keep_all_.peak_bytes_reserved; }

    /// For people, of one of this planner's plans: for each kind of module what is kept and what runs again, bytes at
    /// the peak and time added, and what the peak consists of. "blocks.*.mlp" stands for the modules of all blocks.
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
    std::vector<Option> options_;  ///< of all divisions, the fastest first
    Plan floor_, keep_all_;
    std::int64_t kinds_ = 1;  ///< of micro-batches in a step
    std::size_t simulated_ = 0, rehearsed_ = 0;
};

/// `Planner(profile, workload).fit(budget)`.
Plan fit(const Profile& profile, std::size_t budget, const Workload& workload);

}  // namespace headroom::plan
