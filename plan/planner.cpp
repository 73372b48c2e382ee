#include <headroom/plan/planner.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/turns.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/internal/divided.hpp>
#include <headroom/plan/policy_of.hpp>

namespace headroom::plan {

namespace {

constexpr std::uint32_t kLongWait = 16;  // ops, as `recompute_cheap` has it
constexpr std::size_t kFloors = 4;       // plans that are rehearsed for the least budget

}  // namespace

BudgetTooSmall::BudgetTooSmall(std::size_t budget, std::size_t least, std::size_t keep_all,
                               std::optional<std::size_t> least_split)
    : Error(fmt::format("a budget of {} bytes is too small: the least is {} bytes", budget, least)),
      budget_(budget),
      least_(least),
      keep_all_(keep_all),
      least_split_(least_split) {}

struct Planner::Option {
    Divided* divided;
    const Point* point;             ///< null: nothing runs again, without a policy
    double seconds;                 ///< of a step
    std::size_t expected;           ///< bytes that it reserves
    std::optional<Plan> plan = {};  ///< once it was rehearsed
};

Planner::Planner(const Profile& profile, Workload workload, Costs costs)
    : profile_(profile.endless()), workload_(std::move(workload)), costs_(std::move(costs)) {
    const Division& whole = workload_.division;
    const auto add = [&](const Division& division) {
        if (auto made = divided(division)) divided_.push_back(std::move(made));
    };
    for (std::int64_t batch = whole.batch; batch >= 1; --batch) {
        if (whole.batch % batch != 0) continue;
        if (batch < whole.batch && !(workload_.may_split && workload_.may_split())) break;
        const std::int64_t accumulate = whole.accumulate * (whole.batch / batch);
        add({batch, accumulate});
        for (const std::string& choice : workload_.choices) add({batch, accumulate, choice});
    }
    for (const auto& one : divided_) {
        options_.push_back({one.get(), nullptr, one->seconds, one->keep_all.peak_bytes_reserved, one->keep_all});
        for (const Point& point : one->points) {
            options_.push_back({one.get(), &point, one->step_seconds(point), one->expected(point.peak)});
        }
        options_[options_.size() - one->points.size()].plan = one->lowest;
        for (const auto& [point, reserved] : one->known) {
            options_.push_back({one.get(), &point, one->step_seconds(point), reserved});
        }
    }
    std::stable_sort(options_.begin(), options_.end(),
                     [](const Option& a, const Option& b) { return a.seconds < b.seconds; });
    keep_all_ = divided_.front()->keep_all;
    find_floor();
}

/// Of the plans that were rehearsed the one that reserves least, and of what is expected to take less than that.
void Planner::find_floor() {
    std::vector<Option*> lowest;
    floor_ = keep_all_;
    const auto consider = [&](const Plan& plan) {
        if (plan.peak_bytes_reserved < floor_.peak_bytes_reserved) floor_ = plan;
    };
    for (Option& option : options_) {
        if (option.plan) {
            consider(*option.plan);
        } else {
            lowest.push_back(&option);
        }
    }
    std::stable_sort(lowest.begin(), lowest.end(),
                     [](const Option* a, const Option* b) { return a->expected < b->expected; });
    for (std::size_t i = 0; i < std::min(lowest.size(), kFloors); ++i) {
        if (lowest[i]->expected >= floor_.peak_bytes_reserved) return;
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
        throw Error("a plan is for a workload that does the same each time, and this one records another program: " +
                    differs);
    }
    return rehearsal;
}

/// Null where the workload refuses smaller micro-batches than its own: a norm wants more than one value, say.
std::unique_ptr<Planner::Divided> Planner::divided(const Division& division) {
    auto result = std::make_unique<Divided>();
    result->division = division;
    Rehearsal plain;
    try {
        plain = rehearse(*result, [](Context&) {});
    } catch (const Error&) {
        if (division.batch == workload_.division.batch) throw;
        return nullptr;
    }
    if (plain.program.ops.empty()) throw Error("a plan is for a workload that runs backward, and this one runs none");
    if (plain.program.replays() > 0) {
        throw Error("a plan is for a workload that recomputes nothing by itself: leave its policies out");
    }
    result->keep_all = {.division = division,
                        .peak_bytes_allocated = plain.peak.allocated,
                        .peak_bytes_reserved = plain.peak.reserved,
                        .program = ops_of(plain.program)};
    result->program = rehearse(*result, [](Context& dry) { dry.policy(inherit_all()); }).program;

    result->op_seconds = costs_.of(result->program);
    result->micro_batches = turns_of(0, profile_.ranks, division.accumulate);
    result->seconds = costs_.step_seconds(plain.program, result->micro_batches);
    result->keep_all.step_seconds = result->seconds;
    result->keep_all.measured = costs_.measured();

    std::vector<std::vector<Answer>> known;
    std::vector<std::size_t> known_reserved;
    for (const auto& way : workload_.ways) {
        const Rehearsal by_hand = rehearse(*result, [&](Context& dry) {
            for (const auto& [pattern, policy] : way) dry.policy(pattern, policy);
        });
        if (by_hand.program.ops.size() != result->program.ops.size()) continue;  // other casts
        // A value that waits long is brought back twice by some ways, and held by others.
        for (const std::uint32_t again_after : {0u, kLongWait}) {
            known_reserved.push_back(by_hand.peak.reserved);
            std::vector<Answer>& answers = known.emplace_back();
            for (const RecordedOp& op : by_hand.program.ops) {
                answers.push_back(op.replays ? Answer(Answer::recompute, again_after) : Answer(Answer::keep));
            }
        }
    }
    Found found = search(result->program, result->op_seconds, known);
    simulated_ += found.simulated;
    result->points = std::move(found.points);
    for (std::size_t i = 0; i < known.size(); ++i) {
        result->known.emplace_back(std::move(found.known[i]), known_reserved[i]);
    }
    const Point &low = result->points.front(), &high = result->points.back();
    result->highest_slack =
        plain.peak.reserved - std::min(plain.peak.reserved, std::max(high.peak, plain.peak.allocated));
    Option lowest{result.get(), &low, result->step_seconds(low), 0};
    const Plan& plan = result->lowest = *rehearsed(lowest);
    if (low.seconds > 0 && plan.replayed_ops == 0) {
        throw Error("a plan is for micro-batches that are in a MicroBatchScope, as GradientAccumulator opens one");
    }
    if (plan.peak_bytes_allocated > low.peak + low.peak / 50) result->outside = plan.peak_bytes_allocated;
    const std::size_t peak = std::max(low.peak, result->outside);
    result->lowest_slack = plan.peak_bytes_reserved - std::min(plan.peak_bytes_reserved, peak);
    return result;
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
                       .replayed_ops = rehearsal.program.replays() * static_cast<std::uint64_t>(divided.micro_batches),
                       .program = divided.keep_all.program};
    return &*option.plan;
}

Plan Planner::fit(std::size_t budget) {
    if (budget < floor_bytes()) throw BudgetTooSmall(budget, floor_bytes(), keep_all_bytes());
    for (Option& option : options_) {
        if (option.expected > budget) continue;
        const Plan* const plan = rehearsed(option);
        if (plan->peak_bytes_reserved <= budget) return *plan;
    }
    return floor_;
}

std::vector<Plan> Planner::samples(std::size_t budget) {
    std::vector<Plan> result;
    for (const auto& one : divided_) {
        Option* fastest = nullptr;
        Option* least = nullptr;
        for (Option& option : options_) {
            if (option.divided != one.get() || option.expected > budget) continue;
            if (!fastest) fastest = &option;
            if (!least || option.expected < least->expected) least = &option;
        }
        for (Option* const option : {fastest, least == fastest ? nullptr : least}) {
            if (option && rehearsed(*option)->peak_bytes_reserved <= budget) result.push_back(*rehearsed(*option));
        }
    }
    return result;
}

Plan fit(const Profile& profile, std::size_t budget, const Workload& workload) {
    return Planner(profile, workload).fit(budget);
}

}  // namespace headroom::plan
