// What a budget asks of a trainer: times of ops, a plan by them, and the options that follow from it.
#include <headroom/training/trainer.hpp>

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/op_timer.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/internal/rehearsal.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Without what a training that is only tried has no use for.
TrainerOptions without_files(TrainerOptions options) {
    for (std::string* file :
         {&options.save, &options.best, &options.log, &options.tensorboard, &options.memory_history}) {
        file->clear();
    }
    return options;
}

/// As the plan's division has them. Its choice is a way of recomputing that the task knows by name.
TrainerOptions divided(TrainerOptions options, const plan::Division& division) {
    options.batch = division.batch;
    options.accumulate = division.accumulate;
    if (!division.choice.empty()) options.recompute = division.choice;
    return options;
}

}  // namespace

plan::Costs Trainer::calibrate(Context& context) const {
    constexpr std::int64_t kFewest = 3, kMost = 50;  // steps
    constexpr double kEnough = 2;                    // seconds
    if (context.profile().compute.graphs) throw Error("calibrate: a context with graphs runs no op by itself");
    Trainer trial(task_, without_files(options_));
    trial.options_.costs.reset();
    if (options_.budget > 0) trial.follow(trial.plan(context.profile()).plan);
    trial.options_.steps = kMost + 1;
    const Rehearsal rehearsal =
        headroom::rehearse(context.profile().endless(), [&](Context& dry) { rehearse_on(dry, task_, trial.options_); });
    Session session(context, task_, trial.options_);
    const auto step = [&] {
        session.step();
        session.results();
    };
    OpTimer timer(context);
    step();
    timer.restart();
    const Clock::time_point begin = Clock::now();
    std::int64_t steps = 0;
    while (steps < kFewest || (steps < kMost && since(begin) < kEnough)) {
        step();
        ++steps;
    }
    const double outside = since(begin) - timer.seconds();
    plan::Costs costs = plan::Costs::assumed(context.profile());
    costs.measure(rehearsal.program, timer.ops());
    costs.measure_outside(rehearsal.program, outside / static_cast<double>(steps));
    return costs;
}

Planned Trainer::plan(const Profile& profile) const {
    const Clock::time_point begin = Clock::now();
    if (options_.budget == 0) throw Error("a plan needs " + options_.spell("budget", ""));
    const std::size_t device = profile.device_memory().total_bytes;
    if (options_.budget > device) {
        throw Error(fmt::format("{}: the device has {} bytes",
                                options_.spell("budget", fmt::to_string(options_.budget)), device));
    }
    TrainerOptions plain = without_files(options_);
    if (!plain.recomputes.empty()) {  // the first way keeps all
        if (!plain.recompute.empty() && plain.recompute != plain.recomputes.front().name) {
            throw Error(fmt::format("{}: with {} a plan says what is recomputed",
                                    options_.spell("recompute", plain.recompute), options_.spell("budget", "")));
        }
        plain.recompute = plain.recomputes.front().name;
    }
    plain.policy.reset();
    bool batch_statistics = false;
    plan::Workload workload{
        .run =
            [&](Context& dry, const plan::Division& division) {
                batch_statistics = rehearse_on(dry, task_, divided(plain, division)).batch_statistics;
            },
        .division = {plain.batch, plain.accumulate},
        .may_split = [&] { return plain.resume.empty() && plain.split_batch.value_or(!batch_statistics); }};
    for (const Recompute& way : plain.recomputes) {
        if (!way.policies.empty()) {
            workload.ways.push_back(way.policies);
        } else if (way.name != plain.recompute) {
            workload.choices.push_back(way.name);
        }
    }
    const plan::Costs costs = options_.costs.value_or(plan::Costs::assumed(profile));
    plan::Planner planner(profile, workload, costs);
    Planned planned{.floor_bytes = planner.floor_bytes(), .keep_all_bytes = planner.keep_all_bytes()};
    try {
        planned.plan = planner.fit(options_.budget);
    } catch (const plan::BudgetTooSmall& error) {
        if (plain.batch == 1 || !plain.resume.empty() || workload.may_split()) throw;
        workload.division = {1, plain.batch * plain.accumulate};
        throw plan::BudgetTooSmall(error.budget(), error.least(), error.keep_all(),
                                   plan::Planner(profile, workload, costs).floor_bytes());
    }
    planned.simulated = planner.plans_simulated();
    planned.rehearsed = planner.plans_rehearsed();
    planned.explanation = planner.explain(planned.plan);
    planned.seconds = since(begin);
    return planned;
}

void Trainer::follow(const plan::Plan& plan) {
    options_ = divided(std::move(options_), plan.division);
    options_.policy = plan.policy;
}

void Trainer::check(const plan::Plan& plan, const Profile& profile) const {
    const bool other = plan.division.batch != options_.batch || plan.division.accumulate != options_.accumulate;
    if (!options_.resume.empty() && other) {
        throw Error(fmt::format("the plan has {} of {} samples, and a training that is resumed keeps its {} of {}",
                                plan.division.accumulate, plan.division.batch, options_.accumulate, options_.batch));
    }
    TrainerOptions options = divided(options_, plan.division);
    options.policy.reset();
    plan::check_program(
        plan, headroom::rehearse(profile.endless(), [&](Context& dry) { rehearse_on(dry, task_, options); }).program);
}

}  // namespace headroom::training
