#include <headroom/examples/program/training.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include <headroom/examples/program/history_file.hpp>
#include <headroom/examples/program/interrupt.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/examples/program/progress.hpp>
#include <headroom/examples/program/recent.hpp>
#include <headroom/examples/program/rehearsal.hpp>
#include <headroom/examples/program/session.hpp>
#include <headroom/examples/program/summary.hpp>

namespace headroom::program {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Until the last step, Ctrl-C or --stop-after; false if it ended early.
bool run_steps(Session& session, const Flags& flags, const Program& program, Interrupt& interrupt, Summary& summary) {
    Progress progress(flags.steps, program.unit, session.steps_done());
    Throughput throughput(flags.steps - session.steps_done());
    RecentMean loss(100);
    const auto units = static_cast<double>(flags.accumulate * flags.batch * program.units);  // in a step
    std::int64_t looked_at = session.steps_done();
    // A GPU has one more step to do while the host waits for the ones before, and prints.
    const std::int64_t ahead = session.context().gpu() ? 1 : 0;
    Clock::time_point begin = Clock::now();
    const auto look = [&](std::int64_t leave) {  // waits for the device
        const std::vector<optim::StepResult> results = session.results(leave);
        if (results.empty()) return;
        throughput.add(units * static_cast<double>(results.size()), seconds_since(begin));
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

void run_session(Context& context, const Flags& flags, const Program& program, Interrupt& interrupt, Summary& summary) {
    Session session(context, flags, program);
    if (!flags.resume.empty()) session.resume(flags.resume);
    const bool complete = run_steps(session, flags, program, interrupt, summary);
    if (!flags.save.empty()) {
        session.save(flags.save);
        fmt::print("saved to {}\n", flags.save);
    }
    context.save_tuning();
    interrupt.release();  // nothing is lost any more
    if (complete) {
        summary.validation = session.evaluate();
        fmt::print("validation loss {:.4f}", summary.validation->loss);
        if (const auto accuracy = summary.validation->accuracy) fmt::print(", accuracy {:.2f}%", 100 * *accuracy);
        fmt::print("\n");
        if (const std::string sample = session.sample(); !sample.empty()) fmt::print("\n{}\n\n", sample);
    }
    summary.state_sha256 = session.state_sha256();
}

void run(const Flags& flags, const Program& program, Summary& summary) {
    Interrupt interrupt;  // before the context's threads
    Context context = make_context(flags);
    with_history(context, flags.memory_history, fmt::format("recompute {}", flags.recomputed().name),
                 [&] { run_session(context, flags, program, interrupt, summary); });
    take_peaks(summary, context);
    fmt::print("peak memory {} bytes, predicted {}\n", *summary.peak_bytes_allocated, summary.forecast.peak_allocated);
}

}  // namespace

void train(const Flags& flags, const std::function<Program()>& read) {
    expect_writable("--save", flags.save);
    expect_writable("--json", flags.json);
    expect_writable("--memory-history", flags.memory_history);
    expect_writable("--tune", flags.tuning_file);
    const Clock::time_point begin = Clock::now();
    const Program program = read();
    Summary summary;
    summary.rate_name = program.unit + "_per_second";
    summary.compute = flags.compute;
    const Forecast& forecast = summary.forecast = rehearse(flags, program);
    fmt::print("{} parameters, {}; predicted peak {} bytes ({} of them parameters and optimizer state)\n",
               forecast.parameters, program.data, forecast.peak_allocated, forecast.resident_bytes);
    std::fflush(stdout);
    if (flags.device != "dry") run(flags, program, summary);
    summary.seconds = seconds_since(begin);
    if (!flags.json.empty()) write_summary(flags.json, summary);
}

}  // namespace headroom::program
