#include <headroom/training/internal/rehearsal.hpp>

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

namespace {

/// As many as later ones allocate no more than: the second step finds the first one's moments, as all later ones do.
/// The third one finds free blocks where later ones do, but for a page or two of some programs; after a validation the
/// second one does. With graphs, the second step makes them, and the third one finds what they took.
void take_steps(Session& session) {
    const std::int64_t done = session.steps_done();
    const std::int64_t every = session.validate_every();
    const bool validates = every > 0 && done / every < session.steps() / every;
    constexpr std::int64_t enough = 3;
    const std::int64_t turn =
        validates ? std::min<std::int64_t>(every, session.context().profile().compute.graphs ? enough : 2) : 0;
    for (std::int64_t i = 1; i <= std::min(session.steps() - done, std::max(2 * turn, enough)); ++i) {
        session.step();
        if (validates && i % turn == 0) session.validate();
    }
}

std::string in_words(const TrainerOptions& options, bool without_graphs, const TrainerOptions& other,
                     const Forecast& forecast) {
    std::vector<std::string> changes;
    if (other.batch != options.batch) {
        changes.push_back(options.spell("batch", fmt::to_string(other.batch)));
        changes.push_back(options.spell("accumulate", fmt::to_string(other.accumulate)));
    }
    if (other.recompute != options.recompute) changes.push_back(options.spell("recompute", other.recompute));
    const std::string without = without_graphs ? "without " + options.spell("graphs", "") : "";
    const std::string with = changes.empty() ? "" : fmt::format("with {}", fmt::join(changes, " "));
    const bool another = other.batch != options.batch && forecast.batch_statistics;
    return fmt::format("it fits {}{}{} and then reserves {}{}", without, without.empty() || with.empty() ? "" : ", ",
                       with, size_text(forecast.peak.reserved),
                       another ? "; batch norm then sees fewer samples at once, which is another training" : "");
}

/// Empty if there is none. Another recomputation and no graphs, which change no bit, come before smaller micro-batches.
/// The samples of a step stay the same.
std::string fitting_change(const Profile& profile, const MakeTask& task, const TrainerOptions& options) {
    TrainerOptions other = options;
    Profile tried = profile;
    std::vector<std::string> ways{options.recompute};
    for (const Recompute& way : options.recomputes) {
        if (way.name != options.recompute) ways.push_back(way.name);
    }
    // A training that is resumed keeps its batch.
    const std::int64_t least = options.resume.empty() ? 1 : options.batch;
    for (other.batch = options.batch; other.batch >= least; --other.batch) {
        if (options.batch % other.batch != 0) continue;
        other.accumulate = options.accumulate * (options.batch / other.batch);
        for (const bool graphs : {true, false}) {
            if (graphs && !profile.compute.graphs) continue;
            tried.compute.graphs = graphs;
            for (const std::string& way : ways) {
                other.recompute = way;
                const bool asked = graphs == profile.compute.graphs && way == options.recompute;
                if (asked && other.batch == options.batch) continue;
                try {
                    Context context = Context::dry(tried);
                    const Forecast forecast = rehearse_on(context, task, other);
                    return in_words(options, graphs != profile.compute.graphs, other, forecast);
                } catch (const OutOfMemory&) {
                }
            }
        }
    }
    return "";
}

}  // namespace

Forecast rehearse_on(Context& dry, const MakeTask& task, const TrainerOptions& options) {
    Session session(dry, task, options);
    take_steps(session);
    session.validate();
    session.end();
    return {dry.memory().peak(), session.resident_bytes(),         session.parameters(),
            session.steps(),     session.takes_batch_statistics(), session.graph_refusal()};
}

std::string advice(const Profile& profile, const MakeTask& task, const TrainerOptions& options,
                   const std::string& more) {
    const std::string change = fitting_change(profile, task, options);
    if (!change.empty()) return change + "; or with " + more;
    return options.resume.empty()
               ? "no smaller micro-batch fits, whatever is recomputed: use a smaller model or " + more
               : "a training that is resumed keeps its batch, and with it nothing fits: use " + more;
}

OutOfMemory beside_others(const OutOfMemory& error, Profile profile, const MakeTask& task,
                          const TrainerOptions& options, const Forecast& forecast) {
    memory::MemoryReport report = error.report();
    if (report.page_bytes != profile.memory.granularity) return error;  // not of the context's memory
    profile.memory_limit = std::max(report.usable() + report.held_for_graphs, report.page_bytes);
    report.whole = forecast.peak;
    report.advice = profile.memory_limit < forecast.peak.reserved
                        ? advice(profile, task, options,
                                 fmt::format("{} that others now use of the device", size_text(report.others())))
                        : "a rehearsal has passed in what is free by these figures";
    return OutOfMemory(std::move(report));
}

}  // namespace headroom::training
