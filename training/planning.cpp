// What a budget asks of a trainer: times of ops, a plan by them, and the options that follow from it.
#include <headroom/training/trainer.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/op_timer.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/internal/rehearsal.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

namespace {

/// Without what a training that is only tried has no use for.
TrainerOptions without_files(TrainerOptions options) {
    for (std::string* file :
         {&options.save, &options.best, &options.log, &options.tensorboard, &options.memory_history}) {
        file->clear();
    }
    options.save_every = 0;
    return options;
}

/// What plans start from.
TrainerOptions keeping_all(TrainerOptions options) {
    if (!options.recomputes.empty()) options.recompute = options.recomputes.front().name;
    options.plan.reset();
    return options;
}

/// As the plan's division has them. Its choice is a way of recomputing that the task knows by name.
TrainerOptions divided(TrainerOptions options, const plan::MicroBatching& division) {
    options.batch = division.batch;
    options.accumulate = division.accumulate;
    if (!division.choice.empty()) options.recompute = division.choice;
    return options;
}

/// The training for a planner, which decides what is recomputed.
plan::Workload workload_of(const MakeTask& task, TrainerOptions options) {
    if (const std::string given = std::exchange(options, keeping_all(options)).recompute;
        !given.empty() && given != options.recompute) {
        throw Error(fmt::format("{}: with {}, a plan decides what is recomputed; leave it out",
                                options.spell("recompute", given), options.spell("budget", "")));
    }
    if (const auto saved = saved_plan(options)) {
        options.batch = saved->division.batch;
        options.accumulate = saved->division.accumulate;
    }
    options = without_files(std::move(options));
    const auto rehearsed = std::make_shared<Forecast>();
    const std::optional<bool> split = options.split_batch;
    plan::Workload workload{.division = {options.batch, options.accumulate}, .may_split = [=] {
                                return !rehearsed->keeps_batch && split.value_or(!rehearsed->couples_samples);
                            }};
    for (const nn::RecomputeWay& way : options.recomputes) {
        if (!way.policies.empty()) {
            workload.ways.push_back(way.policies);
        } else if (way.name != options.recompute) {
            workload.choices.push_back(way.name);
        }
    }
    workload.run = [=, options = std::move(options)](Context& dry, const plan::MicroBatching& division) {
        *rehearsed = rehearse_on(dry, task, divided(options, division));
    };
    return workload;
}

/// Some steps of such a training, behind one that warms caches up.
void time_steps(Context& context, const MakeTask& task, const TrainerOptions& options,
                std::vector<plan::TimedStep>& steps) {
    constexpr std::size_t kMost = 20;
    constexpr double kEnough = 0.4;  // seconds
    Session session(context, task, options);
    OpTimer timer(context);
    const auto step = [&] {
        const Moment begin = options.clock();
        session.step();
        session.results();
        return plan::TimedStep{seconds_between(begin, options.clock()), timer.take()};
    };
    step();
    const Moment begin = options.clock();
    for (std::size_t i = 0; i < kMost && (i == 0 || seconds_between(begin, options.clock()) < kEnough); ++i)
        steps.push_back(step());
}

/// The middle half by their time.
std::vector<plan::TimedStep> middle_of(std::vector<plan::TimedStep> steps) {
    std::ranges::sort(steps, {}, &plan::TimedStep::seconds);
    const auto quarter = static_cast<std::ptrdiff_t>(steps.size() / 4);
    return {steps.begin() + quarter, steps.end() - quarter};
}

}  // namespace

plan::Costs Trainer::calibrate(Context& context, std::int64_t rounds) const {
    const Profile profile = context.profile();
    if (profile.compute.graphs)
        throw Error("calibrate: ops of a context with graphs can't be timed one by one; use a context without graphs");
    const TrainerOptions options = keeping_all(options_);
    plan::Costs costs = plan::Costs::assumed(profile);
    plan::Planner planner(profile, workload_of(task_, options), costs);
    std::vector<plan::TimedRun> runs;
    std::vector<TrainerOptions> planned;
    for (const plan::Plan& plan : planner.samples(options.budget > 0 ? options.budget : within_limit(profile))) {
        planned.push_back(divided(without_files(options), plan.division));
        planned.back().plan = plan;
        planned.back().steps = std::numeric_limits<std::int64_t>::max();
        runs.push_back({.program = headroom::rehearse(profile.endless(),
                                                      [&](Context& dry) { rehearse_on(dry, task_, planned.back()); })
                                       .program,
                        .micro_batches = plan.division.accumulate,
                        .steps = {}});
    }
    // In turn, since a machine that others use as well is faster at one time than at another.
    for (std::int64_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < runs.size(); ++i) time_steps(context, task_, planned[i], runs[i].steps);
    }
    for (plan::TimedRun& run : runs) run.steps = middle_of(std::move(run.steps));
    costs.measure(runs);
    return costs;
}

std::unique_ptr<plan::Planner> Trainer::planner(const Profile& profile) const {
    return std::make_unique<plan::Planner>(profile, workload_of(task_, options_),
                                           options_.costs.value_or(plan::Costs::assumed(profile)));
}

/// Reserved by the processes that follow a plan: the most.
std::size_t Trainer::reserved_by_any(const plan::Plan& plan, const Profile& profile) const {
    Trainer following = *this;
    following.apply(plan);
    std::size_t most = 0;
    for (const RankReport& rank : following.rehearse_ranks(profile.endless()))
        most = std::max(most, rank.predicted_bytes_reserved);
    return most;
}

/// The least budget that all processes keep to.
std::size_t Trainer::least_of_all(plan::Planner& planner, const Profile& profile) const {
    const std::size_t least = planner.floor_bytes();  // the plan for it may reserve less
    return profile.ranks > 1 ? std::max(least, reserved_by_any(planner.fit(least), profile)) : least;
}

Planned Trainer::plan(const Profile& here) const {
    Profile profile = here;
    profile.rank = 0;  // all processes follow one plan
    const Moment begin = options_.clock();
    if (options_.budget == 0) throw Error("a plan needs " + options_.spell("budget", ""));
    if (const std::size_t most = profile.usable_bytes(); options_.budget > most) {
        throw Error(fmt::format("{}: {}: use at most {}", options_.spell("budget", fmt::to_string(options_.budget)),
                                memory_text(profile), options_.spell("budget", fmt::to_string(most))));
    }
    if (options_.split_batch == true && batch_stays_whole(profile, task_, options_)) {
        throw Error(options_.spell("split_batch", "true") +
                    ": the task's samples depend on each other, so its batch can't be split; leave it out");
    }
    plan::Workload workload = workload_of(task_, options_);
    const plan::Costs costs = options_.costs.value_or(plan::Costs::assumed(profile));
    plan::Planner planner(profile, workload, costs);
    Planned planned{.floor_bytes = least_of_all(planner, profile), .keep_all_bytes = planner.keep_all_bytes()};
    try {
        std::size_t budget = options_.budget;
        if (budget < planned.floor_bytes)
            throw plan::BudgetTooSmall(budget, planned.floor_bytes, planned.keep_all_bytes);
        planned.plan = planner.fit(budget);
        while (profile.ranks > 1) {  // another one's share may be larger by some elements
            const std::size_t most = reserved_by_any(planned.plan, profile);
            if (most <= options_.budget) break;
            budget = std::max(planner.floor_bytes(), budget - std::min(budget, most - options_.budget));
            planned.plan = planner.fit(budget);
        }
    } catch (const plan::BudgetTooSmall& error) {
        const bool stays = options_.batch == 1 || !options_.resume.empty() || workload.may_split();
        if (stays || batch_stays_whole(profile, task_, options_)) throw;
        workload.division = {1, options_.batch * options_.accumulate};
        plan::Planner split(profile, workload, costs);
        throw plan::BudgetTooSmall(error.budget(), error.least(), error.keep_all(), least_of_all(split, profile));
    }
    planned.plan.budget = options_.budget;
    planned.simulated = planner.plans_simulated();
    planned.rehearsed = planner.plans_rehearsed();
    planned.explanation = planner.explain(planned.plan);
    planned.seconds = seconds_between(begin, options_.clock());
    return planned;
}

void Trainer::apply(const plan::Plan& plan) {
    options_ = divided(keeping_all(std::move(options_)), plan.division);
    options_.plan = plan;
}

void Trainer::check(const plan::Plan& plan, const Profile& profile) const {
    const bool other = plan.division.batch != options_.batch || plan.division.accumulate != options_.accumulate;
    if (!options_.resume.empty() && other) {
        throw Error(
            fmt::format("the plan has {} micro-batches of {} samples, but a resumed training keeps its {} of {}",
                        plan.division.accumulate, plan.division.batch, options_.accumulate, options_.batch));
    }
    check_program(plan, profile);
}

void Trainer::check_program(const plan::Plan& plan, const Profile& profile) const {
    for (const nn::RecomputeWay& way : options_.recomputes) {
        if (way.name != plan.division.choice || way.policies.empty()) continue;
        throw Error(fmt::format("the plan chooses {}, which has policies of its own beside the plan's", way.name));
    }
    const TrainerOptions options = divided(keeping_all(options_), plan.division);
    plan::check_program(
        plan, headroom::rehearse(profile.endless(), [&](Context& dry) { rehearse_on(dry, task_, options); }).program);
}

std::optional<plan::Plan> Trainer::apply_saved(const Profile& profile) {
    std::optional<plan::Plan> plan = saved_plan(options_);
    if (!plan) return plan;
    try {
        check_program(*plan, profile);
    } catch (const Error& error) {
        throw Error(fmt::format("the plan in {}: {}; give {} or {} instead", options_.resume, error.what(),
                                options_.spell("budget", ""), options_.spell("recompute", "")));
    }
    apply(*plan);
    return plan;
}

}  // namespace headroom::training
