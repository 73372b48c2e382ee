#include <headroom/plan/planner.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/plan/internal/divided.hpp>
#include <headroom/plan/policy_of.hpp>

namespace headroom::plan {

namespace {

constexpr std::uint32_t kLongWait = 16;  // ops, as `recompute_cheap` has it

std::uint64_t replays_of(const RecordedProgram& program) {
    return std::accumulate(program.ops.begin(), program.ops.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const RecordedOp& op) { return sum + op.replays; });
}

}  // namespace

BudgetTooSmall::BudgetTooSmall(std::size_t budget, std::size_t least, std::size_t keep_all)
    : Error(fmt::format("a budget of {} bytes is too small: the least is {} bytes", budget, least)),
      budget_(budget),
      least_(least),
      keep_all_(keep_all) {}

struct Planner::Option {
    Divided* divided;
    const Point* point;             ///< null: nothing runs again, without a policy
    double seconds;                 ///< of a step
    std::optional<Plan> plan = {};  ///< once it was rehearsed

    std::size_t expected() const {
        return point ? divided->expected(point->peak) : divided->keep_all.peak_bytes_reserved;
    }
};

Planner::Planner(const Profile& profile, Workload workload)
    : profile_(profile.endless()), workload_(std::move(workload)) {
    const Division& whole = workload_.division;
    for (std::int64_t batch = whole.batch; batch >= 1; --batch) {
        if (whole.batch % batch != 0) continue;
        if (batch < whole.batch && !(workload_.may_split && workload_.may_split())) break;
        divided_.push_back(divided({batch, whole.accumulate * (whole.batch / batch)}));
    }
    for (const auto& one : divided_) {
        options_.push_back({one.get(), nullptr, one->seconds, one->keep_all});
        for (const Point& point : one->points) options_.push_back({one.get(), &point, one->step_seconds(point)});
        options_[options_.size() - one->points.size()].plan = one->lowest;
    }
    std::stable_sort(options_.begin(), options_.end(),
                     [](const Option& a, const Option& b) { return a.seconds < b.seconds; });
    keep_all_ = divided_.front()->keep_all;
    const auto lowest = std::min_element(options_.begin(), options_.end(),
                                         [](const Option& a, const Option& b) { return a.expected() < b.expected(); });
    rehearsed(*lowest);
    // Where less is allocated, more may be reserved: of the plans that were rehearsed, the one that reserves least.
    const auto reserved = [](const Option& option) {
        return option.plan ? option.plan->peak_bytes_reserved : std::numeric_limits<std::size_t>::max();
    };
    floor_ = *std::ranges::min_element(options_, {}, reserved)->plan;
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

std::unique_ptr<Planner::Divided> Planner::divided(const Division& division) {
    auto result = std::make_unique<Divided>();
    result->division = division;
    const Rehearsal plain = rehearse(*result, [](Context&) {});
    if (plain.program.ops.empty()) throw Error("a plan is for a workload that runs backward, and this one runs none");
    if (replays_of(plain.program) > 0) {
        throw Error("a plan is for a workload that recomputes nothing by itself: leave its policies out");
    }
    result->keep_all = {.division = division,
                        .peak_bytes_allocated = plain.peak.allocated,
                        .peak_bytes_reserved = plain.peak.reserved,
                        .program = ops_of(plain.program)};
    result->program = rehearse(*result, [](Context& dry) { dry.policy(inherit_all()); }).program;

    result->op_seconds = Costs::assumed(profile_).of(result->program);
    for (const OpSeconds& op : result->op_seconds) result->seconds += op.forward + op.backward;
    result->seconds *= static_cast<double>(division.accumulate);
    result->keep_all.step_seconds = result->seconds;

    std::vector<std::vector<Answer>> known;
    for (const auto& way : workload_.ways) {
        const RecordedProgram program = rehearse(*result, [&](Context& dry) {
                                            for (const auto& [pattern, policy] : way) dry.policy(pattern, policy);
                                        }).program;
        if (program.ops.size() != result->program.ops.size()) continue;  // other casts
        // A value that waits long is brought back twice by some ways, and held by others.
        for (const std::uint32_t again_after : {0u, kLongWait}) {
            std::vector<Answer>& answers = known.emplace_back();
            for (const RecordedOp& op : program.ops) {
                answers.push_back(op.replays ? Answer(Answer::recompute, again_after) : Answer(Answer::keep));
            }
        }
    }
    Found found = search(result->program, result->op_seconds, known);
    simulated_ += found.simulated;
    result->points = std::move(found.points);
    const Point &low = result->points.front(), &high = result->points.back();
    result->highest_slack =
        plain.peak.reserved - std::min(plain.peak.reserved, std::max(high.peak, plain.peak.allocated));
    Option lowest{result.get(), &low, result->step_seconds(low)};
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
    option.plan =
        Plan{.division = divided.division,
             .policy = policy,
             .peak_bytes_allocated = rehearsal.peak.allocated,
             .peak_bytes_reserved = rehearsal.peak.reserved,
             .step_seconds = option.seconds,
             .replayed_ops = replays_of(rehearsal.program) * static_cast<std::uint64_t>(divided.division.accumulate),
             .program = divided.keep_all.program};
    return &*option.plan;
}

Plan Planner::fit(std::size_t budget) {
    if (budget < floor_bytes()) throw BudgetTooSmall(budget, floor_bytes(), keep_all_bytes());
    for (Option& option : options_) {
        if (option.expected() > budget) continue;
        const Plan* const plan = rehearsed(option);
        if (plan->peak_bytes_reserved <= budget) return *plan;
    }
    return floor_;
}

Plan fit(const Profile& profile, std::size_t budget, const Workload& workload) {
    return Planner(profile, workload).fit(budget);
}

}  // namespace headroom::plan
