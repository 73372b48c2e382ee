#include <headroom/examples/program/rehearsal.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/core/scratch_budget.hpp>
#include <headroom/examples/program/history_file.hpp>
#include <headroom/examples/program/session.hpp>
#include <headroom/examples/program/sizes.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::program {

namespace {

/// As many as later ones take no more memory than: the second step finds the first one's free blocks, as all later ones
/// do, and so does the second step after a validation. With graphs, the second step makes them, and the third one finds
/// what they took.
void take_steps(Session& session, const Flags& flags) {
    const std::int64_t done = session.steps_done();
    const std::int64_t every = flags.validate_every;
    const bool validates = every > 0 && done / every < flags.steps / every;
    const std::int64_t enough = flags.compute.graphs ? 3 : 2;
    const std::int64_t turn = validates ? std::min(every, enough) : 0;
    for (std::int64_t i = 1; i <= std::min(flags.steps - done, std::max(2 * turn, enough)); ++i) {
        session.step();
        if (validates && i % turn == 0) session.evaluate();
    }
}

void run_through(Session& session, const Flags& flags) {
    take_steps(session, flags);
    session.evaluate();
    session.sample();
    session.pictures();
}

/// Writes the history to `history`, if that is not empty.
Forecast run_dry(Context& context, const Flags& flags, const Program& program, const std::string& history) {
    Forecast forecast;
    with_history(context, history, fmt::format("recompute {}, rehearsed", flags.recomputed().name), [&] {
        Session session(context, flags, program);
        run_through(session, flags);
        forecast = {context.memory().peak(), session.resident_bytes(), session.parameters(),
                    session.takes_batch_statistics(), session.graph_refusal()};
    });
    return forecast;
}

/// "it fits with --batch 4 --accumulate 2 and then reserves 18.9 MB (18874368 bytes)"
std::string in_words(const Flags& flags, const Flags& other, const Forecast& forecast) {
    std::string changes;
    if (flags.compute.graphs && !other.compute.graphs) changes = "without --graphs";
    if (other.batch != flags.batch || other.recompute != flags.recompute)
        changes += changes.empty() ? "with" : ", with";
    if (other.batch != flags.batch)
        changes += fmt::format(" --batch {} --accumulate {}", other.batch, other.accumulate);
    if (other.recompute != flags.recompute) changes += " --recompute " + other.recompute;
    const bool another = other.batch != flags.batch && forecast.batch_statistics;
    return fmt::format("it fits {} and then reserves {}{}", changes, size_text(forecast.peak.reserved),
                       another ? "; batch norm then sees fewer samples at once, which is another training" : "");
}

/// The first change of flags with which a rehearsal passes, in words; empty if there is none. Another recomputation and
/// no graphs, which change no bit, come before smaller micro-batches. The samples of a step stay as many.
std::string fitting_change(const Flags& flags, Profile profile, const Program& program) {
    Flags other = flags;
    std::vector<std::string> ways{flags.recompute};
    for (const Recompute& way : flags.recomputes) {
        if (way.name != flags.recompute) ways.push_back(way.name);
    }
    // A training that is resumed keeps its batch.
    const std::int64_t least = flags.resume().empty() ? 1 : flags.batch;
    for (other.batch = flags.batch; other.batch >= least; --other.batch) {
        if (flags.batch % other.batch != 0) continue;
        other.accumulate = flags.accumulate * (flags.batch / other.batch);
        for (const bool graphs : {true, false}) {
            if (graphs && !flags.compute.graphs) continue;
            other.compute.graphs = profile.compute.graphs = graphs;
            for (const std::string& way : ways) {
                other.recompute = way;
                const bool asked = graphs == flags.compute.graphs && way == flags.recompute;
                if (asked && other.batch == flags.batch) continue;
                try {
                    Context context = Context::dry(profile);
                    return in_words(flags, other, run_dry(context, other, program, ""));
                } catch (const OutOfMemory&) {
                }
            }
        }
    }
    return "";
}

/// Only what a rehearsal has shown to fit. `more`: another way out.
std::string advice(const Flags& flags, const Profile& profile, const Program& program, const std::string& more) {
    const std::string change = fitting_change(flags, profile, program);
    if (!change.empty()) return change + "; or with " + more;
    return flags.resume().empty()
               ? "no smaller micro-batch fits, whatever is recomputed: use a smaller model or " + more
               : "a training that is resumed keeps its batch, and with it nothing fits: use " + more;
}

/// Flags for what a rehearsal of the whole has shown to suffice.
std::string sufficient(const Flags& flags, const memory::MemoryReport& report) {
    if (flags.memory_limit > 0 && report.whole_limit <= report.device_total)
        return fmt::format("--memory-limit {}", report.whole_limit);
    if (flags.gpu_memory > 0) return fmt::format("--gpu-memory {}", report.whole_limit);
    return fmt::format("a device that has {}", size_text(report.whole_limit));
}

/// The history up to the request that does not fit: what the run would have come to.
void write_refused(const Flags& flags, const Profile& profile, const Program& program) {
    try {
        Context context = Context::dry(profile);
        run_dry(context, flags, program, flags.memory_history);
    } catch (const OutOfMemory&) {
    }
}

}  // namespace

Forecast rehearse(const Flags& flags, const Program& program) {
    const Profile profile = profile_of(flags);
    std::string history = flags.device == "dry" ? flags.memory_history : "";
    Forecast forecast;
    try {
        headroom::rehearse(profile, [&](Context& context) {
            forecast = run_dry(context, flags, program, std::exchange(history, ""));
        });
        return forecast;
    } catch (const OutOfMemory& error) {
        if (flags.device != "dry" && !flags.memory_history.empty()) write_refused(flags, profile, program);
        memory::MemoryReport report = error.report();
        if (report.whole) report.advice = advice(flags, profile, program, sufficient(flags, report));
        throw OutOfMemory(std::move(report));
    }
}

OutOfMemory after_rehearsal(const OutOfMemory& error, const Flags& flags, const Program& program,
                            const Forecast& forecast) {
    memory::MemoryReport report = error.report();
    Profile profile = profile_of(flags);
    if (report.page_bytes != profile.memory.granularity) return error;  // not of the context's memory
    profile.memory_limit = std::max(report.usable() + report.held_for_graphs, report.page_bytes);
    report.whole = forecast.peak;
    report.advice = profile.memory_limit < forecast.peak.reserved
                        ? advice(flags, profile, program,
                                 fmt::format("{} that others now use of the device", size_text(report.others())))
                        : "a rehearsal has passed in what is free by these figures";
    return OutOfMemory(std::move(report));
}

std::int64_t rehearsed(std::int64_t samples, std::int64_t batch) {
    return std::min<std::int64_t>(samples / batch, 2) * batch + samples % batch;
}

std::size_t fit_scratch(const Flags& flags, const Program& program) {
    return fit_scratch_budget(profile_of(flags), [&](Context& rehearsal) {
        Session session(rehearsal, flags, program);
        run_through(session, flags);
    });
}

}  // namespace headroom::program
