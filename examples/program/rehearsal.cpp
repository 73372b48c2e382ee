#include <headroom/examples/program/rehearsal.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/examples/program/history_file.hpp>
#include <headroom/examples/program/session.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::program {

namespace {

/// Writes the history to `history`, if that is not empty.
Forecast run_dry(Flags flags, const Profile& profile, const Program& program, const std::string& history) {
    // A third micro-batch finds what the second one found: gradients to add to.
    flags.accumulate = std::min<std::int64_t>(flags.accumulate, 2);
    // The second step finds the first one's free blocks, as all later ones do.
    flags.steps = std::min<std::int64_t>(flags.steps, 2);
    Context context = Context::dry(profile);
    Forecast forecast;
    with_history(context, history, fmt::format("recompute {}, rehearsed", flags.recomputed().name), [&] {
        Session session(context, flags, program);
        for (std::int64_t i = 0; i < flags.steps; ++i) session.step();
        session.evaluate();
        session.sample();
        const MemoryStatistics statistics = context.memory().statistics();
        forecast = {statistics.peak_allocated, statistics.peak_reserved, session.resident_bytes(),
                    session.parameters()};
    });
    return forecast;
}

/// The first change of flags that makes it fit, in words; empty if none does. The samples of a step stay as many.
std::string advice(const Flags& flags, const Profile& profile, const Program& program) {
    Flags other = flags;
    for (other.batch = flags.batch; other.batch >= 1; --other.batch) {
        if (flags.batch % other.batch != 0) continue;
        other.accumulate = flags.accumulate * (flags.batch / other.batch);
        for (const bool checkpoint : {flags.checkpoint, flags.recomputes.size() > 1}) {
            other.checkpoint = checkpoint;
            try {
                const Forecast forecast = run_dry(other, profile, program, "");
                return fmt::format("it fits with --batch {} --accumulate {}{} (peak {} bytes reserved)", other.batch,
                                   other.accumulate, checkpoint ? " --checkpoint" : "", forecast.peak_reserved);
            } catch (const OutOfMemory&) {
            }
        }
    }
    return "no smaller micro-batch fits: use a smaller model or a larger --memory-limit";
}

/// The history up to the request that does not fit: what the run would have come to.
void write_refused(const Flags& flags, const Profile& profile, const Program& program) {
    try {
        run_dry(flags, profile, program, flags.memory_history);
    } catch (const OutOfMemory&) {
    }
}

}  // namespace

Forecast rehearse(const Flags& flags, const Program& program) {
    const Profile profile = profile_of(flags);
    try {
        return run_dry(flags, profile, program, flags.device == "dry" ? flags.memory_history : "");
    } catch (const OutOfMemory& error) {
        if (flags.device != "dry" && !flags.memory_history.empty()) write_refused(flags, profile, program);
        memory::MemoryReport report = error.report();
        report.advice = advice(flags, profile, program);
        throw OutOfMemory(std::move(report));
    }
}

}  // namespace headroom::program
