#include <headroom/examples/gpt/rehearsal.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/examples/gpt/history_file.hpp>
#include <headroom/examples/gpt/session.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::gpt {

namespace {

/// Of what the training will run on, or of the GPU that the flags describe.
Profile profile_of(const GptFlags& flags) {
    if (flags.gpu_memory == 0) return make_context(flags).profile();
    Profile profile = Profile::gpu(flags.gpu_memory);
    profile.memory_limit = flags.memory_limit;
    profile.seed = flags.seed;
    return profile;
}

/// Writes the history to `history`, if that is not empty.
Forecast run_dry(GptFlags flags, const Profile& profile, const data::TextCorpus& corpus, const std::string& history) {
    // A third micro-batch finds what the second one found: gradients to add to.
    flags.accumulate = std::min<std::int64_t>(flags.accumulate, 2);
    // The second step finds the first one's free blocks, as all later ones do.
    flags.steps = std::min<std::int64_t>(flags.steps, 2);
    Context context = Context::dry(profile);
    Forecast forecast;
    with_history(context, history, fmt::format("recompute {}, rehearsed", flags.recomputed()), [&] {
        Session session(context, flags, corpus);
        for (std::int64_t i = 0; i < flags.steps; ++i) session.step();
        session.evaluate();
        if (flags.sample > 0) session.sample(flags.sample);
        const MemoryStatistics statistics = context.memory().statistics();
        forecast = {statistics.peak_allocated, statistics.peak_reserved, session.resident_bytes(),
                    session.parameters()};
    });
    return forecast;
}

/// The first change of flags that makes it fit, in words; empty if none does. The tokens of a step stay as many.
std::string advice(const GptFlags& flags, const Profile& profile, const data::TextCorpus& corpus) {
    GptFlags other = flags;
    for (other.batch = flags.batch; other.batch >= 1; --other.batch) {
        if (flags.batch % other.batch != 0) continue;
        other.accumulate = flags.accumulate * (flags.batch / other.batch);
        for (const bool checkpoint : {flags.checkpoint, true}) {
            other.checkpoint = checkpoint;
            try {
                const Forecast forecast = run_dry(other, profile, corpus, "");
                return fmt::format("it fits with --batch {} --accumulate {}{} (peak {} bytes reserved)", other.batch,
                                   other.accumulate, checkpoint ? " --checkpoint" : "", forecast.peak_reserved);
            } catch (const OutOfMemory&) {
            }
        }
    }
    return "no smaller micro-batch fits: use a smaller model or a larger --memory-limit";
}

/// The history up to the request that does not fit: what the run would have come to.
void write_refused(const GptFlags& flags, const Profile& profile, const data::TextCorpus& corpus) {
    try {
        run_dry(flags, profile, corpus, flags.memory_history);
    } catch (const OutOfMemory&) {
    }
}

}  // namespace

Context make_context(const GptFlags& flags) {
    const ContextOptions options{.threads = flags.threads, .memory_limit = flags.memory_limit, .seed = flags.seed};
    return flags.device == "cuda" ? Context::cuda(0, options) : Context::cpu(options);
}

Forecast rehearse(const GptFlags& flags, const data::TextCorpus& corpus) {
    const Profile profile = profile_of(flags);
    try {
        return run_dry(flags, profile, corpus, flags.device == "dry" ? flags.memory_history : "");
    } catch (const OutOfMemory& error) {
        if (flags.device != "dry" && !flags.memory_history.empty()) write_refused(flags, profile, corpus);
        memory::MemoryReport report = error.report();
        report.advice = advice(flags, profile, corpus);
        throw OutOfMemory(std::move(report));
    }
}

}  // namespace headroom::gpt
