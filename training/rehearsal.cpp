#include <headroom/training/internal/rehearsal.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

namespace {

/// The bytes by which each step of a training grew, by what was live behind each; 0 unless all of the later half did.
std::size_t growth_of(std::span<const std::size_t> live) {
    if (live.size() < 10) return 0;
    const std::span<const std::size_t> later = live.subspan(live.size() / 2);
    if (std::ranges::adjacent_find(later, std::ranges::greater_equal()) != later.end()) return 0;
    return (later.back() - later.front()) / (later.size() - 1);
}

/// Until memory recurs: steps, or rounds of steps with a validation behind them. The bytes by which each step grew, if
/// memory did not recur before so many were taken.
std::size_t take_steps(Session& session) {
    const std::int64_t every = session.validate_every();
    const bool validates = every > 0 && session.steps_done() / every < session.steps() / every;
    const auto ended = [&] { return session.steps_done() >= session.steps(); };
    std::vector<std::size_t> live;  // bytes behind each step
    SteadyState steps(session.context());
    const auto take = [&](std::int64_t most) {
        while (most-- > 0 && !ended()) {
            session.step();
            live.push_back(session.context().memory().statistics().allocated);
            if (steps.reached()) return;
        }
    };
    if (!validates) take(session.steps());
    for (SteadyState rounds(session.context()); validates && !ended() && !rounds.reached();) {
        take(every);
        session.validate();
    }
    return ended() ? 0 : growth_of(live);
}

constexpr const char* kAnotherTraining =
    "; batch norm, or a loss over pairs, then sees fewer samples at once, which changes the training";

/// What the options say that a plan, and `changed`, say instead: " in place of --memory-limit and --recompute".
std::string replaced(const Profile& profile, const TrainerOptions& options, std::vector<std::string> changed = {}) {
    if (profile.memory_limit > 0) changed.emplace_back("memory_limit");
    if (!options.recompute.empty()) changed.emplace_back("recompute");
    if (options.plan) changed.emplace_back("plan");
    for (std::string& name : changed) name = options.spell(name, "");
    return changed.empty() ? "" : fmt::format(" in place of {}", fmt::join(changed, " and "));
}

/// Of a training with such a peak, that between steps is in use as well.
std::size_t resident_at(const MemoryPeak& peak) {
    return peak.by_category[static_cast<std::size_t>(Category::parameters)] +
           peak.by_category[static_cast<std::size_t>(Category::optimizer_state)];
}

/// How a training keeps within so many bytes, or why it can't.
struct Change {
    bool fits = false;
    std::string words;
    std::string flags = {};  ///< of one that fits: the budget, and what goes with it
};

/// The first plan that fits. One that keeps micro-batches where layers take statistics of them comes before one that
/// does not, and one with graphs before one without.
Change fitting_plan(const Profile& profile, std::size_t bytes, const MakeTask& task, const TrainerOptions& options) {
    TrainerOptions other = options;
    other.budget = bytes;
    if (!options.recomputes.empty()) other.recompute = options.recomputes.front().name;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const bool graphs : {true, false}) {
        if (graphs && !profile.compute.graphs) continue;
        Profile tried = profile;
        tried.compute.graphs = graphs;
        for (const std::optional<bool> split : {options.split_batch, std::optional(true)}) {
            other.split_batch = split;
            try {
                const plan::Plan plan = Trainer(task, other).plan(tried).plan;
                const bool asks = split && split != options.split_batch && plan.division.batch != options.batch;
                std::string flags = options.spell("budget", fmt::to_string(bytes));
                if (asks) flags += fmt::format(" {}", options.spell("split_batch", "true"));
                if (graphs != profile.compute.graphs)
                    flags += fmt::format(" and without {}", options.spell("graphs", ""));
                return {true,
                        fmt::format("it fits with {}{}: {}{}", flags, replaced(profile, options), plan.to_string(),
                                    asks ? kAnotherTraining : ""),
                        flags};
            } catch (const plan::BudgetTooSmall& error) {
                least = std::min(least, error.least());
                if (!error.least_split()) break;  // smaller micro-batches were tried, or can't be
            } catch (const Error& error) {        // it trains nothing, or recomputes by policies of its own
                return {false, fmt::format("no plan can be made for it ({})", error.what())};
            }
        }
    }
    return {false, "no plan needs less than " + size_text(least)};
}

/// Whether smaller micro-batches are the same training, or asked for.
bool may_split(const Profile& profile, const MakeTask& task, const TrainerOptions& options) {
    if (batch_stays_whole(profile, task, options)) return false;
    if (options.split_batch) return *options.split_batch;
    Context dry = Context::dry(profile.endless());
    return !rehearse_on(dry, task, options).couples_samples;
}

/// How processes share what one alone can't hold: "2 processes (mpirun -np 2) with --shard gradients --budget
/// 18874368"; empty if they can't. They keep the micro-batches, or have one each of the same samples.
std::string shared_by_processes(const Profile& profile, std::size_t bytes, const MakeTask& task,
                                const TrainerOptions& options) {
    // Without a limit, those on one machine's processors would share the memory that does not suffice.
    if (profile.ranks > 1 || profile.compute.graphs || (profile.memory_limit == 0 && !profile.cuda())) return "";
    constexpr int kMost = 8;
    const bool splits = options.accumulate < kMost && options.resume.empty() && may_split(profile, task, options);
    Profile shared = profile;
    shared.memory_limit = 0;  // the budget is in its place
    for (shared.ranks = 2; shared.ranks <= kMost; shared.ranks *= 2) {
        TrainerOptions other = options;
        other.shard = Shard::gradients;
        std::string flags = options.spell("shard", name(other.shard));
        std::vector<std::string> changed;
        if (options.accumulate < shared.ranks) {
            const std::int64_t samples = options.batch * options.accumulate;
            if (samples % shared.ranks != 0 || !splits) return "";
            other.batch = samples / shared.ranks;
            other.accumulate = shared.ranks;
            flags += fmt::format(" {} {}", options.spell("batch", fmt::to_string(other.batch)),
                                 options.spell("accumulate", fmt::to_string(other.accumulate)));
            changed = {"batch", "accumulate"};
        }
        const std::size_t each = std::min(bytes, shared.usable_bytes());  // less than one process alone may take
        const Change change = fitting_plan(shared, each, task, other);
        if (!change.fits) continue;
        return fmt::format("{0} processes (mpirun -np {0}) with {1} {2}{3}", shared.ranks, flags, change.flags,
                           replaced(profile, options, changed));
    }
    return "";
}

}  // namespace

std::size_t within_limit(const Profile& profile) {
    const std::size_t device = profile.usable_bytes();
    return profile.memory_limit > 0 ? std::min(profile.memory_limit, device) : device;
}

Forecast rehearse_on(Context& dry, const MakeTask& task, const TrainerOptions& options) {
    Session session(dry, task, options);
    const std::size_t grows_by = take_steps(session);
    session.validate();
    std::vector<std::string> policies;
    for (const auto& [pattern, policy] : dry.profile().policies) policies.push_back(pattern);
    session.end();
    return {dry.memory().peak(),
            session.allocated_bytes(Category::parameters),
            session.allocated_bytes(Category::optimizer_state),
            session.parameters(),
            session.steps(),
            session.couples_samples(),
            session.keeps_batch(),
            session.graph_refusal(),
            {},
            {},
            grows_by,
            std::move(policies)};
}

bool batch_stays_whole(const Profile& profile, const MakeTask& task, const TrainerOptions& options) {
    Context dry = Context::dry(profile.endless());
    return Session(dry, task, options).keeps_batch();
}

std::vector<std::vector<std::int64_t>> work_of_ranks(const Profile& profile, const MakeTask& task,
                                                     const TrainerOptions& options) {
    Context dry = Context::dry(profile);
    return Session(dry, task, options).work_of_ranks();
}

std::string advice(const Profile& profile, std::size_t bytes, const MemoryPeak& whole, const MakeTask& task,
                   const TrainerOptions& options, const std::string& more) {
    const std::size_t resident = resident_at(whole);
    const Change change = resident > bytes
                              ? Change{false, "parameters and optimizer state alone take " + size_text(resident)}
                              : fitting_plan(profile, bytes, task, options);
    if (change.fits) return change.words + "; or with " + more;
    const std::string shared = shared_by_processes(profile, bytes, task, options);
    const std::string ways = shared.empty() ? more : fmt::format("{}, or {}", shared, more);
    return options.resume.empty()
               ? fmt::format("{}: use a smaller model{} {}", change.words, shared.empty() ? " or" : ",", ways)
               : fmt::format("a resumed training keeps its batch, and {}: use {}", change.words, ways);
}

OutOfMemory beside_others(const OutOfMemory& error, const Profile& profile, const MakeTask& task,
                          const TrainerOptions& options, const Forecast& forecast) {
    memory::MemoryReport report = error.report();
    if (report.page_bytes != profile.memory.granularity) return error;  // not of the context's memory
    const std::size_t usable = std::max(report.usable() + report.held_for_graphs, report.page_bytes);
    const bool exceeds = report.statistics.allocated + report.rounded > forecast.peak.allocated;
    const bool planned = options.limit() > 0 && report.limit > 0 && usable >= forecast.peak.reserved;
    if (exceeds || planned) {
        report.advice = fmt::format(
            "this was not rehearsed: it depends on values, or its batch has a different shape than the first ones; "
            "give all batches one shape{}",
            planned
                ? fmt::format(", or use {} or more", options.spell("budget", fmt::to_string(report.request_limit())))
                : "");
        return OutOfMemory(std::move(report));
    }
    report.whole = forecast.peak;
    report.advice = usable < forecast.peak.reserved
                        ? advice(profile, usable, forecast.peak, task, options,
                                 fmt::format("{} of the device that others now use", size_text(report.others())))
                        : "by these figures the free memory suffices, as a rehearsal shows";
    return OutOfMemory(std::move(report));
}

}  // namespace headroom::training
