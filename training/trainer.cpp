#include <headroom/training/trainer.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/core/round_robin.hpp>
#include <headroom/core/scratch_budget.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/history_file.hpp>
#include <headroom/training/internal/rehearsal.hpp>
#include <headroom/training/say.hpp>

namespace headroom::training {

bool Trainer::is_first(const Context& context) { return !context.group() || context.group()->rank() == 0; }

std::string Trainer::title() const {
    return options_.recompute.empty() ? options_.name : "recompute " + options_.recompute;
}

Forecast Trainer::rehearse(Context& dry) const { return rehearse_on(dry, task_, options_); }

Forecast Trainer::rehearse(const Profile& profile, bool history) const {
    Forecast forecast;
    bool first = true;  // of the passes that a refused one is followed by
    try {
        const Rehearsal rehearsal = headroom::rehearse(profile, [&](Context& dry) {
            const std::string file = std::exchange(first, false) ? options_.memory_history : "";
            // One that is refused is the last word, too.
            with_history(
                dry, file, title() + ", rehearsed", [&] { forecast = rehearse(dry); }, history);
        });
        const plan::Costs costs = options_.costs.value_or(plan::Costs::assumed(profile));
        const std::int64_t own = round_robin_count(profile.rank, profile.ranks, options_.accumulate);
        forecast.step_seconds = costs.step_seconds(rehearsal.program, own);
        forecast.idle_policies = idle_policies(forecast.policies, rehearsal.program);
        forecast.replayed_ops = rehearsal.program.replays() * static_cast<std::uint64_t>(own);
        return forecast;
    } catch (const OutOfMemory& error) {
        memory::MemoryReport report = error.report();
        if (report.whole) {
            const std::size_t device = profile.usable_bytes();
            const bool limited = profile.memory_limit > 0 && report.whole_limit <= device;
            const std::string suffices =
                limited ? options_.spell("memory_limit", fmt::to_string(report.whole_limit))
                        : options_.spell("device", fmt::to_string(report.whole_limit + profile.reserved_bytes()));
            report.advice = advice(profile, within_limit(profile), *report.whole, task_, options_, suffices);
        }
        throw OutOfMemory(std::move(report));
    }
}

std::vector<RankReport> Trainer::rehearse_ranks(Profile profile) const {
    profile.rank = 0;
    const std::vector<std::vector<std::int64_t>> work = work_of_ranks(profile, task_, options_);
    std::map<std::vector<std::int64_t>, RankReport> known;
    std::vector<RankReport> ranks;
    for (; profile.rank < profile.ranks; ++profile.rank) {
        const auto [found, unknown] = known.try_emplace(work[static_cast<std::size_t>(profile.rank)]);
        if (unknown) {
            const Forecast forecast = rehearse(profile);
            found->second = {.predicted_bytes_allocated = forecast.peak.allocated,
                             .predicted_bytes_reserved = forecast.peak.reserved,
                             .parameter_bytes = forecast.parameter_bytes,
                             .optimizer_state_bytes = forecast.optimizer_state_bytes};
        }
        ranks.push_back(found->second);
    }
    return ranks;
}

std::optional<Planned> Trainer::plan_or_saved(const Profile& profile, bool says) {
    if (options_.budget == 0) {
        if (!options_.plan && options_.recompute.empty()) apply_saved(profile);
        return {};
    }
    Planned planned = plan(profile);
    apply(planned.plan);
    if (says)
        say("plan: {}; the least budget found is {}, keeping all takes {}", planned.plan.to_string(),
            size_text(planned.floor_bytes), size_text(planned.keep_all_bytes));
    for (const auto& hook : after_plan_) hook(planned);
    return planned;
}

void Trainer::announce(const Forecast& forecast) const {
    say("{} parameters{}{}", forecast.parameters, options_.data.empty() ? "" : ", ", options_.data);
    for (const auto& hook : news_)
        for (const std::string& line : hook()) say("{}", line);
    say("predicted peak {}, of it parameters and optimizer state {}", size_text(forecast.peak.allocated),
        size_text(forecast.resident_bytes()));
    if (forecast.couples_samples && options_.accumulate > 1)
        say("batch norm takes its statistics over {} samples, not over the {} of a step", options_.batch,
            options_.batch * options_.accumulate);
    if (forecast.grows_by > 0) {
        say("memory grows by {} in every step, which the predicted peak does not include: keep a step's numbers "
            "(item()), not its tensors",
            size_text(forecast.grows_by));
    }
    for (const IdlePolicy& idle : forecast.idle_policies) {
        say("the policy for \"{}\" changes nothing: no module that it matches computes anything{}{}", idle.pattern,
            idle.nearest.empty() ? "" : "; the nearest that do are ", fmt::join(idle.nearest, ", "));
    }
    std::fflush(stdout);
}

Report Trainer::run(Context& context) {
    if (options_.fit_scratch) throw Error("fit_scratch: run must make the context itself; give it a profile");
    if (!context.dry()) return run(context.profile(), [&](const Profile&) -> Context& { return context; });
    Report report;
    report.planned = plan_or_saved(context.profile(), false);
    report.forecast = rehearse(context);
    return report;
}

Report Trainer::run(Profile profile, const MakeContext& make_context) {
    const bool says = options_.print && profile.rank == 0;
    if (says && profile.cuda()) say("{}", memory_text(profile));
    std::optional<Planned> planned = plan_or_saved(profile, says);
    Forecast forecast = rehearse(profile, !make_context);
    if (options_.fit_scratch) {
        profile.compute.scratch_budget = fit_scratch_budget(profile, [&](Context& dry) { rehearse(dry); });
        if (says) say("scratch budget {}", size_text(profile.compute.scratch_budget));
        forecast = rehearse(profile, !make_context);
    }
    if (says) announce(forecast);
    Report report;
    if (make_context) {
        report = train(make_context(profile), forecast);
    } else {
        report.graph_refusal = forecast.graph_refusal;
        report.forecast = std::move(forecast);
    }
    report.planned = std::move(planned);
    report.compute = profile.compute;
    return report;
}

}  // namespace headroom::training
