#include <headroom/plan/planner.hpp>

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <headroom/core/round_robin.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/internal/divided.hpp>
#include <headroom/plan/policy_of.hpp>

namespace headroom::plan {

namespace {

constexpr std::size_t kFloors = 4;    // plans that are rehearsed for the least budget
constexpr double kWorthFloor = 0.95;  // of the least so far: what one must take to be rehearsed for less
constexpr double kRounding = 1e-9;    // of seconds

}  // namespace

BudgetTooSmall::BudgetTooSmall(std::size_t budget, std::size_t least, std::size_t keep_all,
                               std::optional<std::size_t> least_split)
    : Error(fmt::format("a budget of {} bytes is too small: the least found is {} bytes", budget, least)),
      budget_(budget),
      least_(least),
      keep_all_(keep_all),
      least_split_(least_split) {}

struct Planner::Option {
    Divided* divided;
    const Point* point;             ///< null: the plan adds nothing, and is no policy
    double seconds;                 ///< of a step
    std::size_t expected;           ///< bytes that it reserves
    bool by_bytes = false;          ///< found whatever ops cost
    std::optional<Plan> plan = {};  ///< once it was rehearsed

    /// Bytes that it reserves, or whole pages of what is allocated at once.
    std::size_t at_least(std::size_t page) const {
        if (plan) return plan->peak_bytes_reserved;
        return (std::max(point->peak, divided->outside) + page - 1) / page * page;
    }
};

Planner::Planner(const Profile& profile, Workload workload, Costs costs)
    : profile_(profile.endless()), workload_(std::move(workload)), costs_(std::move(costs)) {
    const MicroBatching& whole = workload_.division;
    const auto add = [&](const MicroBatching& division) {
        if (auto made = divided(division)) divided_.push_back(std::move(made));
    };
    for (std::int64_t batch = whole.batch; batch >= 1; --batch) {
        if (whole.batch % batch != 0) continue;
        if (batch < whole.batch && !(workload_.may_split && workload_.may_split())) break;
        const std::int64_t accumulate = whole.accumulate * (whole.batch / batch);
        add({batch, accumulate});
        for (const std::string& choice : workload_.choices) add({batch, accumulate, choice});
    }
    keep_all_ = divided_.front()->keep_all;
    for (const auto& one : divided_) {
        options_.push_back(
            {one.get(), nullptr, one->keep_all.step_seconds, one->keep_all.peak_bytes_reserved, true, one->keep_all});
        const auto add_point = [&](const Point& point, std::size_t expected, bool by_bytes) {
            options_.push_back({one.get(), &point, one->step_seconds(point), expected, by_bytes});
            if (point.answers == one->lowest_points.front().answers) options_.back().plan = one->lowest;
        };
        for (auto point = one->points.rbegin(); point != one->points.rend(); ++point)
            add_point(*point, one->expected(point->peak), false);
        for (const auto& [point, reserved] : one->known) add_point(point, reserved, true);
        for (const Point& point : one->lowest_points) add_point(point, one->expected(point.peak), true);
    }
    // What is faster by less than the costs are sure of is not faster: keeping all undivided comes first then.
    const double kept = keep_all_.step_seconds, sure = kept * (1 - std::max(costs_.spread(), kRounding));
    for (Option& option : options_) {
        if (option.seconds < kept && option.seconds >= sure) option.seconds = kept;
        if (option.plan) option.plan = told(*option.plan, option.seconds);
    }
    find_floor();  // while they are in an order that no time decides
    std::stable_sort(options_.begin(), options_.end(),
                     [](const Option& a, const Option& b) { return a.seconds < b.seconds; });
}

/// With what it says of itself beside the division that was asked for.
Plan Planner::told(Plan plan, double seconds) const {
    plan.step_seconds = seconds;
    plan.whole_batch = workload_.division.batch;
    plan.gain = std::max(0.0, 1 - seconds / keep_all_.step_seconds);
    plan.kinds = kinds_;
    return plan;
}

/// The plan that reserves least of those that are found by bytes alone: times change nothing here. One that is expected
/// to reserve as much as the least so far is rehearsed where its own peak is far below: it may not leave pages in
/// pieces.
void Planner::find_floor() {
    std::vector<Option*> lowest;
    floor_ = told(keep_all_, keep_all_.step_seconds);
    const auto consider = [&](const Plan& plan) {
        if (plan.peak_bytes_reserved < floor_.peak_bytes_reserved) floor_ = plan;
    };
    for (Option& option : options_) {
        if (!option.by_bytes) continue;
        if (option.plan) {
            consider(*option.plan);
        } else {
            lowest.push_back(&option);
        }
    }
    std::stable_sort(lowest.begin(), lowest.end(),
                     [](const Option* a, const Option* b) { return a->expected < b->expected; });
    for (std::size_t i = 0; i < std::min(lowest.size(), kFloors); ++i) {
        const auto worth = static_cast<std::size_t>(kWorthFloor * static_cast<double>(floor_.peak_bytes_reserved));
        const bool less = lowest[i]->expected < floor_.peak_bytes_reserved;
        if (!less && lowest[i]->at_least(profile_.memory.granularity) > worth) continue;
        consider(*rehearsed(*lowest[i]));
    }
}

Planner::~Planner() = default;

/// Once `prepare` has set policies.
Rehearsal Planner::rehearse(const Divided& divided, const std::function<void(Context&)>& prepare) {
    ++rehearsed_;
    Rehearsal rehearsal = headroom::rehearse(profile_, [&](Context& dry) {
        prepare(dry);
        workload_.run(dry, divided.division);
    });
    const std::vector<ProgramOp>& first = divided.keep_all.program;
    const std::string differs = first.empty() ? "" : difference(first, ops_of(rehearsal.program));
    if (!differs.empty()) {
        throw Error("planner: the workload must do the same each time, but its program changed: " + differs);
    }
    return rehearsal;
}

/// Null where the workload refuses smaller micro-batches than its own: a norm wants more than one value, say, or a file
/// that is resumed is of these.
std::unique_ptr<Planner::Divided> Planner::divided(const MicroBatching& division) {
    auto result = std::make_unique<Divided>();
    result->division = division;
    Rehearsal plain;
    try {
        plain = rehearse(*result, [](Context&) {});
    } catch (const Error&) {
        if (division.batch == workload_.division.batch) throw;
        return nullptr;
    }
    if (plain.program.ops.empty()) throw Error("planner: the workload must run backward, but it does not");
    result->keep_all = {.division = division,
                        .peak_bytes_allocated = plain.peak.allocated,
                        .peak_bytes_reserved = plain.peak.reserved,
                        .program = ops_of(plain.program)};
    kinds_ = std::max(kinds_, plain.kinds);
    result->program = rehearse(*result, [](Context& dry) { dry.policy(inherit_all()); }).program;
    if (std::none_of(result->program.ops.begin(), result->program.ops.end(), std::mem_fn(&RecordedOp::in_micro_batch)))
        throw Error(
            "planner: the workload must run its micro-batches in a MicroBatchScope, as GradientAccumulator does");

    result->op_seconds = costs_.of(result->program);
    result->micro_batches = round_robin_count(0, profile_.ranks, division.accumulate);
    result->keep_all.step_seconds = costs_.step_seconds(plain.program, result->micro_batches);
    result->keep_all.measured = costs_.measured();
    result->keep_all.replayed_ops = replays_of_step(plain.program, *result);
    for (RecordedOp& op : plain.program.ops) {
        op.replays = 0;
        op.after_replay = false;
    }
    result->seconds = costs_.step_seconds(plain.program, result->micro_batches);

    std::vector<std::vector<Answer>> known;
    std::vector<std::size_t> known_reserved;
    for (const auto& way : workload_.ways) {
        const Rehearsal by_hand = rehearse(*result, [&](Context& dry) {
            for (const auto& [pattern, policy] : way) dry.policy(pattern, policy);
        });
        if (by_hand.program.ops.size() != result->program.ops.size()) continue;  // other casts
        // A value that waits long is brought back twice by some ways, and held by others.
        for (const std::uint32_t drop_distance : {0u, kLongDropDistance}) {
            known_reserved.push_back(by_hand.peak.reserved);
            std::vector<Answer>& answers = known.emplace_back();
            for (const RecordedOp& op : by_hand.program.ops) {
                answers.push_back(op.replays ? Answer(Answer::recompute, drop_distance) : Answer(Answer::keep));
            }
        }
    }
    Found found = search(result->program, result->op_seconds, known);
    simulated_ += found.simulated;
    result->points = std::move(found.points);
    result->lowest_points = std::move(found.lowest);
    for (std::size_t i = 0; i < known.size(); ++i) {
        result->known.emplace_back(std::move(found.known[i]), known_reserved[i]);
    }
    const Point &low = result->lowest_points.front(), &high = result->points.back();
    result->highest_slack =
        plain.peak.reserved - std::min(plain.peak.reserved, std::max(high.peak, plain.peak.allocated));
    Option lowest{result.get(), &low, result->step_seconds(low), 0};
    const Plan& plan = result->lowest = *rehearsed(lowest);
    if (plan.peak_bytes_allocated > low.peak + low.peak / 50) result->outside = plan.peak_bytes_allocated;
    const std::size_t peak = std::max(low.peak, result->outside);
    result->lowest_slack = plan.peak_bytes_reserved - std::min(plan.peak_bytes_reserved, peak);
    return result;
}

/// How often backward runs ops again, of the rank that has most of a step's micro-batches.
std::uint64_t Planner::replays_of_step(const RecordedProgram& program, const Divided& divided) {
    return program.replays() * static_cast<std::uint64_t>(divided.micro_batches);
}

const Plan* Planner::rehearsed(Option& option) {
    if (option.plan) return &*option.plan;
    const Divided& divided = *option.divided;
    const Policy policy = policy_of(divided.program, option.point->answers);
    const Rehearsal rehearsal = rehearse(divided, [&](Context& dry) { dry.policy(policy); });
    option.plan = Plan{.division = divided.division,
                       .policy = policy,
                       .peak_bytes_allocated = rehearsal.peak.allocated,
                       .peak_bytes_reserved = rehearsal.peak.reserved,
                       .step_seconds = option.seconds,
                       .measured = costs_.measured(),
                       .replayed_ops = replays_of_step(rehearsal.program, divided),
                       .program = divided.keep_all.program};
    option.plan = told(std::move(*option.plan), option.seconds);
    return &*option.plan;
}

/// The fastest plan within the budget, of one division or of all; null if there is none. Not by what plans are expected
/// to reserve: a larger budget would find what this one left out.
const Plan* Planner::fastest(std::size_t budget, const Divided* of) {
    for (Option& option : options_) {
        if ((of && option.divided != of) || option.at_least(profile_.memory.granularity) > budget) continue;
        const Plan* const plan = rehearsed(option);
        if (plan->peak_bytes_reserved <= budget) return plan;
    }
    return nullptr;
}

Plan Planner::fit(std::size_t budget) {
    if (budget < floor_bytes()) throw BudgetTooSmall(budget, floor_bytes(), keep_all_bytes());
    const Plan* const plan = fastest(budget, nullptr);
    return plan ? *plan : floor_;
}

std::vector<Plan> Planner::samples(std::size_t budget) {
    std::vector<Plan> result;
    for (const auto& one : divided_) {
        const Plan* const fast = fastest(budget, one.get());
        if (!fast) continue;
        result.push_back(*fast);
        Option* least = nullptr;
        for (Option& option : options_) {
            if (option.divided != one.get() || option.expected > budget) continue;
            if (!least || option.expected < least->expected) least = &option;
        }
        if (!least) continue;
        const Plan* const low = rehearsed(*least);
        if (low != fast && low->peak_bytes_reserved <= budget) result.push_back(*low);
    }
    return result;
}

Plan fit(const Profile& profile, std::size_t budget, const Workload& workload) {
    return Planner(profile, workload).fit(budget);
}

}  // namespace headroom::plan
