// Trains a GPT on a text file within the memory that there is, and says beforehand how much that will be.
#include <chrono>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include <headroom/examples/gpt/history_file.hpp>
#include <headroom/examples/gpt/rehearsal.hpp>
#include <headroom/examples/gpt/session.hpp>
#include <headroom/examples/program/interrupt.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/examples/program/progress.hpp>
#include <headroom/examples/program/recent.hpp>
#include <headroom/examples/program/summary.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::gpt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Trains until the last step, Ctrl-C or --stop-after; false if it ended early.
bool train(Session& session, const GptFlags& flags, program::Interrupt& interrupt, program::Summary& summary) {
    program::Progress progress(flags.steps, "tokens", session.steps_done());
    program::Throughput throughput(flags.steps - session.steps_done());
    program::RecentMean loss(100);
    const auto tokens = static_cast<double>(session.tokens_per_step());
    std::int64_t looked_at = session.steps_done();
    // A GPU has one more step to do while the host waits for the ones before, and prints.
    const std::int64_t ahead = session.context().gpu() ? 1 : 0;
    Clock::time_point begin = Clock::now();
    const auto look = [&](std::int64_t leave) {  // waits for the device
        const std::vector<optim::StepResult> results = session.results(leave);
        if (results.empty()) return;
        throughput.add(tokens * static_cast<double>(results.size()), seconds_since(begin));
        for (const optim::StepResult& result : results) {
            if (result.finite) loss.add(result.loss);
        }
        looked_at += static_cast<std::int64_t>(results.size());
        const MemoryStatistics memory = session.context().memory().statistics();
        progress.show({looked_at, results.back().loss, throughput.rate(), memory.allocated, memory.peak_allocated});
        begin = Clock::now();
    };
    const std::int64_t stop = flags.stop_after >= 0 ? session.steps_done() + flags.stop_after : flags.steps;
    bool asked = false;
    while (session.steps_done() < std::min(stop, flags.steps) && !(asked = interrupt.requested())) {
        session.step();
        const bool full = session.unread() == Session::kKeptResults;
        if (full || throughput.warming_up() || progress.due(session.steps_done() - ahead)) look(ahead);
    }
    if (looked_at < session.steps_done()) look(0);
    progress.end();
    if (asked) {
        fmt::print("interrupted after step {}{}\n", session.steps_done(),
                   flags.save.empty() ? "; no --save, not saved" : "");
    }
    summary.train_loss = loss.mean();
    summary.rate = throughput.rate();
    summary.steps = session.steps_done();
    return session.steps_done() == flags.steps;
}

void run_session(Context& context, const GptFlags& flags, const data::TextCorpus& corpus, program::Interrupt& interrupt,
                 program::Summary& summary) {
    Session session(context, flags, corpus);
    if (!flags.resume.empty()) session.resume(flags.resume);
    const bool complete = train(session, flags, interrupt, summary);
    if (!flags.save.empty()) {
        session.save(flags.save);
        fmt::print("saved to {}\n", flags.save);
    }
    interrupt.release();  // nothing is lost any more
    if (complete) {
        summary.val_loss = session.evaluate();
        fmt::print("validation loss {:.4f}\n", *summary.val_loss);
    }
    if (flags.sample > 0 && complete) fmt::print("\n{}\n\n", session.sample(flags.sample));
    summary.state_sha256 = session.state_sha256();
    summary.parameters = session.parameters();
    summary.resident_bytes = session.resident_bytes();
}

void run_training(const GptFlags& flags, const data::TextCorpus& corpus, program::Summary& summary) {
    program::Interrupt interrupt;  // before the context's threads
    Context context = make_context(flags);
    with_history(context, flags.memory_history, fmt::format("recompute {}", flags.recomputed()),
                 [&] { run_session(context, flags, corpus, interrupt, summary); });
    program::take_peaks(summary, context);
    fmt::print("peak memory {} bytes, predicted {}\n", *summary.peak_bytes_allocated, summary.peak_bytes_predicted);
}

void main_program(const GptFlags& flags) {
    program::expect_writable("--save", flags.save);
    program::expect_writable("--json", flags.json);
    program::expect_writable("--memory-history", flags.memory_history);
    const Clock::time_point begin = Clock::now();
    const data::TextOptions text{.block = flags.block};
    const data::TextCorpus corpus =
        flags.bytes ? data::TextCorpus::bytes(flags.data, text) : data::TextCorpus::characters(flags.data, text);
    program::Summary summary;
    const Forecast forecast = rehearse(flags, corpus);
    summary.peak_bytes_predicted = forecast.peak_allocated;
    summary.peak_bytes_reserved_predicted = forecast.peak_reserved;
    summary.parameters = forecast.parameters;
    summary.resident_bytes = forecast.resident_bytes;
    fmt::print(
        "{} parameters, {} tokens of {} kinds; predicted peak {} bytes ({} of them parameters and optimizer state)\n",
        forecast.parameters, corpus.tokens().size(), corpus.vocabulary().size(), forecast.peak_allocated,
        forecast.resident_bytes);
    std::fflush(stdout);
    if (flags.device != "dry") run_training(flags, corpus, summary);
    summary.seconds = seconds_since(begin);
    if (!flags.json.empty()) program::write_summary(flags.json, summary);
}

}  // namespace
}  // namespace headroom::gpt

int main(int argc, char** argv) {
    CLI::App app("Trains a GPT on a text file.", "train_gpt");
    headroom::gpt::GptFlags flags;
    headroom::gpt::add_flags(app, flags);
    return headroom::program::run(app, argc, argv, [&] { headroom::gpt::main_program(flags); });
}
