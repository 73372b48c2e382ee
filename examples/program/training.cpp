#include <headroom/examples/program/training.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/examples/program/history_file.hpp>
#include <headroom/examples/program/interrupt.hpp>
#include <headroom/examples/program/loss_curve.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/examples/program/progress.hpp>
#include <headroom/examples/program/recent.hpp>
#include <headroom/examples/program/rehearsal.hpp>
#include <headroom/examples/program/say.hpp>
#include <headroom/examples/program/session.hpp>
#include <headroom/examples/program/sizes.hpp>
#include <headroom/examples/program/step_log.hpp>
#include <headroom/examples/program/summary.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::program {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Says which images are skipped, each once.
class SkipReport {
  public:
    explicit SkipReport(const Program& program) : program_(program) {}

    /// Those that were found since the last call; calls `before` if there are some.
    template <class Before>
    void say_new(const Before& before) {
        if (!program_.skipped) return;
        std::vector<std::string> found = program_.skipped();
        std::erase_if(found, [&](const std::string& one) { return !said_.insert(one).second; });
        if (found.empty()) return;
        before();
        constexpr std::size_t named = 10;
        say("skipping {} bad image{}, whose place another one takes:", found.size(), found.size() == 1 ? "" : "s");
        for (std::size_t i = 0; i < std::min(found.size(), named); ++i) say("  {}", found[i]);
        if (found.size() > named) say("  and {} more", found.size() - named);
    }

  private:
    const Program& program_;
    std::set<std::string> said_;
};

/// What a training reports while it runs, and leaves behind when it is validated.
class Reporter {
  public:
    Reporter(Session& session, const Flags& flags, const Program& program, SkipReport& skipped)
        : session_(session),
          flags_(flags),
          skipped_(skipped),
          progress_(flags.steps, program.unit, session.steps_done()),
          throughput_(flags.steps - session.steps_done(), Clock::now()),
          log_(flags, session.steps_done()),
          units_(static_cast<double>(flags.accumulate * flags.batch * program.units)),
          looked_at_(session.steps_done()) {}

    /// Whether to look at the steps up to this one.
    bool due(std::int64_t step) { return session_.unread() == Session::kKeptResults || progress_.due(step); }
    bool warming_up() const { return throughput_.warming_up(); }

    /// At the results of all steps but the last `leave`. Waits for the device.
    void look(std::int64_t leave) {
        const std::vector<optim::StepResult> results = session_.results(leave);
        if (results.empty()) return;
        throughput_.look(static_cast<std::int64_t>(results.size()), units_, Clock::now());
        for (const optim::StepResult& result : results) {
            ++looked_at_;
            if (result.finite) {
                loss_.add(result.loss);
                curve_.training.push_back({looked_at_, result.loss});
            }
            log_.step(looked_at_, result, session_.learning_rate(looked_at_));
        }
        log_.flush();
        const MemoryStatistics memory = session_.context().memory().statistics();
        progress_.show({looked_at_, results.back().loss, throughput_.rate(), memory.allocated, memory.peak_allocated});
        say_skipped();
    }

    /// Validates once per step. Keeps the best.
    const Validation& validate() {
        if (validated_ == session_.steps_done()) return validation_;
        validated_ = session_.steps_done();
        progress_.end();
        evaluate();
        say_skipped();
        std::string line = fmt::format("step {}: validation loss {:.4f}", validated_, validation_.loss);
        curve_.validation.push_back({validated_, validation_.loss});
        for (const Metric& metric : validation_.metrics())
            line += fmt::format(", {} {:.2f}%", metric.name, 100 * metric.value);
        if (!validation_.note.empty()) line += "; " + validation_.note;
        const bool saves = session_.is_best(validation_) && !flags_.best.empty();
        if (saves) session_.save(flags_.best);
        say("{}{}", line, saves ? ", the best so far: saved to " + flags_.best : "");
        std::fflush(stdout);
        log_.validation(validated_, validation_);
        log_.flush();
        throughput_.begin(Clock::now());
        return validation_;
    }

    void save() {
        session_.save(flags_.save);
        throughput_.begin(Clock::now());
    }

    void end() { progress_.end(); }

    std::optional<double> loss() const { return loss_.mean(); }
    const LossCurve& curve() const { return curve_; }
    double rate() const { return throughput_.rate(); }
    /// Of the steps, without validations and saves.
    double seconds() const { return throughput_.seconds(); }

  private:
    void evaluate() {
        WorkProgress progress("validation", "batches");
        validation_ = session_.evaluate([&](std::int64_t done, std::int64_t all) { progress.show(done, all); });
    }
    void say_skipped() {
        skipped_.say_new([&] { progress_.end(); });
    }

    Session& session_;
    const Flags& flags_;
    SkipReport& skipped_;
    Progress progress_;
    Throughput throughput_;
    RecentMean loss_{100};
    LossCurve curve_;
    StepLog log_;
    double units_;  ///< in a step
    std::int64_t looked_at_;
    std::int64_t validated_ = -1;  ///< the step of `validation_`
    Validation validation_;
};

void write_pictures(const std::string& folder, const LossCurve& curve, const std::vector<Picture>& pictures) {
    if (folder.empty()) return;
    std::filesystem::create_directories(folder);
    const std::filesystem::path path(folder);
    write_loss_curve(path / "loss.svg", curve);
    for (const Picture& picture : pictures) data::write_png(path / (picture.name + ".png"), picture.image);
    say("drew {} picture{} and the losses in {}", pictures.size(), pictures.size() == 1 ? "" : "s", folder);
}

/// Once, if a GPU's work is slower than it could be.
void name_missing_cudnn(Context& context) {
    if (!context.gpu()) return;
    const std::string absence = kernels::cudnn_absence(std::get<kernels::CudaStream>(context.stream()));
    if (!absence.empty()) fmt::print("own kernels compute attention and convolutions: {}\n", absence);
}

/// Until the last step, Ctrl-C or --stop-after; false if it ended early.
bool run_steps(Session& session, const Flags& flags, Interrupt& interrupt, Reporter& reporter) {
    // A GPU has one more step to do while the host waits for the ones before, and prints.
    const std::int64_t ahead = session.context().gpu() ? 1 : 0;
    const auto now = [&](std::int64_t every) { return every > 0 && session.steps_done() % every == 0; };
    const std::int64_t stop = flags.stop_after >= 0 ? session.steps_done() + flags.stop_after : flags.steps;
    bool asked = false, first = true;
    while (session.steps_done() < std::min(stop, flags.steps) && !(asked = interrupt.requested())) {
        session.step();
        if (std::exchange(first, false)) name_missing_cudnn(session.context());
        const bool last = session.steps_done() == flags.steps;
        // With --best at the last step, too, so that --save knows of it.
        const bool validates = now(flags.validate_every) || (last && !flags.best.empty());
        const bool saves = now(flags.save_every);
        if (validates || saves || reporter.warming_up()) {
            reporter.look(0);
        } else if (reporter.due(session.steps_done() - ahead)) {
            reporter.look(ahead);
        }
        if (validates) reporter.validate();
        if (saves) reporter.save();
    }
    reporter.look(0);
    reporter.end();
    if (asked) {
        fmt::print("interrupted after step {}{}\n", session.steps_done(),
                   flags.save.empty() ? "; no --save, not saved" : "");
    }
    return session.steps_done() >= flags.steps;
}

/// Where validations are most of the work, which nobody expects behind a training of few steps.
void announce_validations(const Session& session, const Flags& flags) {
    const std::int64_t left = std::max<std::int64_t>(flags.steps - session.steps_done(), 0);
    const std::int64_t steps = flags.stop_after >= 0 ? std::min(flags.stop_after, left) : left;
    const std::int64_t on_the_way = flags.validate_every > 0 ? steps / flags.validate_every : 0;
    const std::int64_t validations = on_the_way + (steps == left ? 1 : 0);
    constexpr std::int64_t few = 10;
    const std::int64_t batches = validations * session.validation_batches();
    if (batches < few || batches <= steps * flags.accumulate) return;
    say("the training takes {} batch{}, {} {}", steps * flags.accumulate, steps * flags.accumulate == 1 ? "" : "es",
        validations == 1 ? "and its validation" : "each validation", session.validation_batches());
    std::fflush(stdout);
}

void run_session(Context& context, const Flags& flags, const Program& program, Interrupt& interrupt,
                 SkipReport& skipped, Summary& summary) {
    Session session(context, flags, program);
    Reporter reporter(session, flags, program, skipped);
    announce_validations(session, flags);
    if (!flags.resume().empty() && session.steps_done() >= flags.steps)
        fmt::print("nothing to train: {} steps are done, and {} are wanted\n", session.steps_done(), flags.steps);
    bool complete = false;
    try {
        complete = run_steps(session, flags, interrupt, reporter);
    } catch (const UnreadableBatch&) {
        reporter.look(0);
        reporter.end();
        if (flags.save.empty()) throw;
        reporter.save();
        say("saved to {} after step {}; --resume goes on from there", flags.save, session.steps_done());
        throw;
    }
    if (session.loading_seconds() > 0) {
        summary.loading_share = session.loading_seconds() / reporter.seconds();
        fmt::print("batches took {:.1f}% of the steps' time\n", 100 * *summary.loading_share);
    }
    summary.train_loss = reporter.loss();
    summary.rate = reporter.rate();
    summary.steps = session.steps_done();
    summary.graph_refusal = session.graph_refusal();
    if (!flags.save.empty()) {
        reporter.save();
        say("saved to {}", flags.save);
    }
    context.save_tuning();
    if (!complete) summary.signal = interrupt.signal();
    interrupt.release();  // nothing is lost any more
    if (complete) {
        summary.validation = reporter.validate();
        if (const std::string sample = session.sample(); !sample.empty()) fmt::print("\n{}\n\n", sample);
    }
    write_pictures(flags.pictures, reporter.curve(), complete ? session.pictures() : std::vector<Picture>());
    summary.state_sha256 = session.state_sha256();
}

/// Which libraries computed, and what did instead of them.
void print_libraries(Context& context) {
    launch(context.stream(), [](auto& stream) {
        if constexpr (std::is_same_v<decltype(stream), kernels::CudaStream&>) {
            fmt::print("products: {}\nattention: {}\nconvolutions: {}\n", kernels::matmul_library(stream),
                       kernels::attention_library(stream), kernels::convolution_library(stream));
        }
    });
}

void run(const Flags& flags, const Program& program, SkipReport& skipped, Summary& summary) {
    Interrupt interrupt;  // before the context's threads
    Context context = make_context(flags);
    with_history(context, flags.memory_history, fmt::format("recompute {}", flags.recomputed().name),
                 [&] { run_session(context, flags, program, interrupt, skipped, summary); });
    take_peaks(summary, context);
    fmt::print("peak memory {}, predicted {}\n", size_text(*summary.peak_bytes_allocated),
               size_text(summary.forecast.peak.allocated));
    if (flags.libraries) print_libraries(context);
}

}  // namespace

void train(const Flags& flags, const std::function<Program()>& read) {
    expect_writable("--save", flags.save);
    expect_writable("--best", flags.best);
    expect_writable("--json", flags.json);
    expect_writable("--log", flags.log);
    expect_writable("--memory-history", flags.memory_history);
    expect_writable("--tune", flags.tuning_file);
    expect_folder("--tensorboard", flags.tensorboard);
    expect_folder("--pictures", flags.pictures);
    const Clock::time_point begin = Clock::now();
    if (const std::string file = flags.resume(); !file.empty()) {
        const std::vector<std::string>& anew = flags.stored->anew();
        say("resuming {} with its flags{}{}", file, anew.empty() ? "" : "; given anew: ", fmt::join(anew, ", "));
    }
    const Program program = read();
    const NamedFiles outputs{{"--save", flags.save},
                             {"--best", flags.best},
                             {"--json", flags.json},
                             {"--log", flags.log},
                             {"--memory-history", flags.memory_history},
                             {"--tune", flags.tuning_file}};
    expect_apart(outputs, program.reads);
    expect_apart({outputs.begin() + 2, outputs.end()}, {{"--resume", flags.resume()}});  // which --save may replace
    Summary summary;
    summary.rate_name = program.unit + "_per_second";
    Forecast& forecast = summary.forecast = rehearse(flags, program);
    Flags fitted = flags;  // with those that `read` has set
    if (flags.fit_scratch) {
        fitted.compute.scratch_budget = fit_scratch(flags, program);
        fmt::print("scratch budget {}\n", size_text(fitted.compute.scratch_budget));
        forecast = rehearse(fitted, program);
    }
    summary.compute = fitted.compute;
    say("{} parameters, {}", forecast.parameters, program.data);
    SkipReport skipped(program);
    skipped.say_new([] {});
    say("predicted peak {}, of it parameters and optimizer state {}", size_text(forecast.peak.allocated),
        size_text(forecast.resident_bytes));
    if (forecast.batch_statistics && fitted.accumulate > 1) {
        fmt::print("batch norm takes its statistics of {} samples, not of the {} of a step\n", fitted.batch,
                   fitted.batch * fitted.accumulate);
    }
    std::fflush(stdout);
    summary.graph_refusal = forecast.graph_refusal;
    try {
        if (flags.device != "dry") run(fitted, program, skipped, summary);
    } catch (const OutOfMemory& error) {
        throw after_rehearsal(error, fitted, program, forecast);
    }
    if (program.skipped) summary.skipped_images = program.skipped().size();
    if (const std::string& why = summary.graph_refusal; !why.empty())
        fmt::print("not all work was done by graphs: {}\n", why);
    summary.seconds = seconds_since(begin);
    if (!flags.json.empty()) write_summary(flags.json, summary);
    if (summary.signal != 0) throw Interrupted(summary.signal);
}

}  // namespace headroom::program
