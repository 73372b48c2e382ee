#include <headroom/examples/program/rehearsal.hpp>

#include <algorithm>

#include <fmt/format.h>

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
Forecast run_dry(const Flags& flags, const Profile& profile, const Program& program, const std::string& history) {
    Context context = Context::dry(profile);
    Forecast forecast;
    with_history(context, history, fmt::format("recompute {}, rehearsed", flags.recomputed().name), [&] {
        Session session(context, flags, program);
        run_through(session, flags);
        const MemoryStatistics statistics = context.memory().statistics();
        forecast = {statistics.peak_allocated, statistics.peak_reserved,         session.resident_bytes(),
                    session.parameters(),      session.takes_batch_statistics(), session.graph_refusal()};
    });
    return forecast;
}

/// Where no batch and no way of recomputing fits.
std::string last_resort(const Flags& flags) {
    const bool resumed = !flags.resume().empty();
    const char* const more = flags.memory_limit > 0 ? "a larger --memory-limit"
                             : flags.gpu_memory > 0 ? "a GPU with more memory"
                                                    : "a device with more memory";
    return resumed ? fmt::format("a training that is resumed keeps its batch, and with it nothing fits: use {}", more)
                   : fmt::format("no smaller micro-batch fits: use a smaller model or {}", more);
}

/// The first change of flags that makes it fit, in words: recomputing, which changes no bit, before smaller
/// micro-batches. The samples of a step stay as many.
std::string advice(const Flags& flags, Profile profile, const Program& program) {
    Flags other = flags;
    other.compute.graphs = profile.compute.graphs = false;
    const std::string& most = flags.recomputes.back().name;
    std::vector<std::string> ways{flags.recompute};
    if (flags.recompute != most) ways.push_back(most);
    // A training that is resumed keeps its batch.
    const std::int64_t least = flags.resume().empty() ? 1 : flags.batch;
    for (other.batch = flags.batch; other.batch >= least; --other.batch) {
        if (flags.batch % other.batch != 0) continue;
        other.accumulate = flags.accumulate * (flags.batch / other.batch);
        for (const std::string& way : ways) {
            other.recompute = way;
            try {
                const Forecast forecast = run_dry(other, profile, program, "");
                const bool checkpoint = way == most && flags.recomputes.size() > 1;
                const bool another = forecast.batch_statistics && other.batch != flags.batch;
                return fmt::format(
                    "it fits {}with --batch {} --accumulate {}{} and then reserves {}{}",
                    flags.compute.graphs ? "without --graphs, " : "", other.batch, other.accumulate,
                    checkpoint ? " --checkpoint" : "", size_text(forecast.peak_reserved),
                    another ? "; batch norm then sees fewer samples at once, which is another training" : "");
            } catch (const OutOfMemory&) {
            }
        }
    }
    return last_resort(flags);
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
