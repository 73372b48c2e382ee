// A training while it runs: its steps, and what it tells, validates and saves meanwhile.
#include <headroom/training/trainer.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <headroom/core/overhead.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/training/history_file.hpp>
#include <headroom/training/internal/last_step.hpp>
#include <headroom/training/internal/recent_mean.hpp>
#include <headroom/training/internal/rehearsal.hpp>
#include <headroom/training/internal/step_log.hpp>
#include <headroom/training/internal/throughput.hpp>
#include <headroom/training/interrupt.hpp>
#include <headroom/training/progress.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

namespace {

constexpr std::size_t kRecentLosses = 100;

/// Once, if a GPU's work is slower than it could be.
void name_missing_cudnn(Context& context) {
    if (!context.gpu()) return;
    const std::string absence = kernels::cudnn_absence(std::get<kernels::CudaStream>(context.stream()));
    if (!absence.empty()) fmt::print("{}\n", absence);
}

/// Of all steps so far.
StepCounts counts_of(Context& context) {
    StepCounts counts{.replayed_ops = context.tape().statistics().replayed};
    if (const kernels::CudaDevice* gpu = context.gpu()) {
        counts.launches = gpu->launches();
        counts.host_waits = gpu->host_waits();
    }
    if (const Group* group = context.group()) {
        counts.sent_bytes = group->traffic().sent_bytes;
        counts.exchanges = group->traffic().exchanges;
    }
    return counts;
}

/// A budget is a limit while it trains, also the one that the plan of a file was made for. Of memory that others have
/// live blocks in, too, it is one for what comes on top.
class BudgetLimit {
  public:
    BudgetLimit(DeviceMemory& memory, std::size_t budget) : memory_(memory), before_(memory.limit()) {
        if (budget == 0) return;
        const MemoryStatistics statistics = memory.statistics();
        const std::size_t limit = budget + (statistics.allocated > 0 ? statistics.reserved : 0);
        is_set_ = before_ == 0 || limit < before_;
        if (is_set_) memory.set_limit(limit);
    }
    ~BudgetLimit() {
        if (is_set_) memory_.set_limit(before_);  // a higher one gives nothing back, and so can't fail
    }
    BudgetLimit(const BudgetLimit&) = delete;
    BudgetLimit& operator=(const BudgetLimit&) = delete;

  private:
    DeviceMemory& memory_;
    std::size_t before_;
    bool is_set_ = false;
};

StepCounts operator-(const StepCounts& a, const StepCounts& b) {
    return {a.replayed_ops - b.replayed_ops, a.launches - b.launches, a.host_waits - b.host_waits,
            a.sent_bytes - b.sent_bytes, a.exchanges - b.exchanges};
}

/// Gathers every rank's report on all ranks.
std::vector<RankReport> gather_ranks(Group& group, const RankReport& own) {
    static_assert(std::is_trivially_copyable_v<RankReport>);
    std::vector<RankReport> ranks;
    for (const std::string& one : all_gather(group, std::string(reinterpret_cast<const char*>(&own), sizeof(own))))
        std::memcpy(static_cast<void*>(&ranks.emplace_back()), one.data(), sizeof(own));
    return ranks;
}

}  // namespace

/// Reports progress.
class Trainer::Reporter {
  public:
    Reporter(Session& session, const Trainer& trainer)
        : session_(session),
          trainer_(trainer),
          options_(trainer.options_),
          progress_(session.steps(), options_.unit, session.steps_done(), options_.clock),
          throughput_(session.steps() - session.steps_done(), options_.clock()),
          log_(options_, session.steps_done(), session.steps_done() >= session.steps()),
          units_(static_cast<double>(options_.accumulate * options_.batch * options_.units)),
          looked_at_(session.steps_done()) {}

    /// Whether to look at the steps up to this one.
    bool due(std::int64_t step) { return session_.unread() == Session::kKeptResults || progress_.due(step); }
    bool warming_up() const { return throughput_.warming_up(); }
    void count(const StepCounts& step) { last_step_ = step; }
    const StepCounts& last_step() const { return last_step_; }

    /// At the results of all steps but the last `leave`. Waits for the device.
    void look(std::int64_t leave) {
        const std::vector<optim::StepResult> results = session_.results(leave);
        if (results.empty()) return;
        throughput_.look(static_cast<std::int64_t>(results.size()), units_, options_.clock());
        for (const optim::StepResult& result : results) {
            ++looked_at_;
            if (result.finite) loss_.add(result.loss);
            const double rate = session_.learning_rate(looked_at_);
            log_.step(looked_at_, result, rate);
            for (const auto& hook : trainer_.after_step_) hook({looked_at_, result, rate});
        }
        log_.flush();
        if (!options_.print) return;
        const MemoryStatistics memory = session_.context().memory().statistics();
        progress_.show(
            {looked_at_, results.back().loss, throughput_.rate(), memory.peak_allocated, results.back().figures});
        tell_news();
    }

    /// Validates once per step. Keeps the best.
    const Validation& validate() {
        if (validated_ == session_.steps_done()) return validation_;
        validated_ = session_.steps_done();
        end();
        evaluate();
        tell_news();
        const bool best = session_.is_best(validation_), saves = best && !options_.best.empty();
        if (saves) session_.save(options_.best);
        if (options_.print) print(saves);
        log_.validation(validated_, validation_);
        log_.flush();
        for (const auto& hook : trainer_.after_validation_) hook({validated_, validation_, best});
        throughput_.begin(options_.clock());
        return validation_;
    }

    void save() {
        session_.save(options_.save);
        throughput_.begin(options_.clock());
    }

    void end() {
        if (options_.print) progress_.end();
    }

    std::optional<double> loss() const { return loss_.mean(); }
    double rate() const { return throughput_.rate(); }
    std::optional<double> step_seconds() const { return throughput_.step_seconds(); }
    /// Of the steps, without validations and saves.
    double seconds() const { return throughput_.seconds(); }

  private:
    void evaluate() {
        if (!options_.print) {
            validation_ = session_.validate();
            return;
        }
        WorkProgress progress("validation", "batches", options_.clock);
        validation_ = session_.validate([&](std::int64_t done, std::int64_t all) { progress.show(done, all); });
    }
    void print(bool saved) const {
        std::string line = fmt::format("step {}: validation loss {:.4f}", validated_, validation_.loss);
        for (const Metric& metric : validation_.metrics)
            line += metric.share ? fmt::format(", {} {:.2f}%", metric.name, 100 * metric.value)
                                 : fmt::format(", {} {:.4g}", metric.name, metric.value);
        if (!validation_.note.empty()) line += "; " + validation_.note;
        say("{}{}", line, saved ? ", the best so far: saved to " + options_.best : "");
        std::fflush(stdout);
    }
    void tell_news() {
        if (!options_.print) return;
        for (const auto& hook : trainer_.news_) {
            const std::vector<std::string> lines = hook();
            if (!lines.empty()) progress_.end();
            for (const std::string& line : lines) say("{}", line);
        }
    }

    Session& session_;
    const Trainer& trainer_;
    const TrainerOptions& options_;
    Progress progress_;
    Throughput throughput_;
    RecentMean loss_{kRecentLosses};
    StepLog log_;
    double units_;  ///< in a step
    std::int64_t looked_at_;
    StepCounts last_step_;
    std::int64_t validated_ = -1;  ///< the step of `validation_`
    Validation validation_;
};

/// Until the last step, a signal, `stop_after` or `patience`; false if it ended early by one of the first two.
bool Trainer::run_steps(Session& session, Reporter& reporter, const Interrupt* interrupt, LastStep* last_step) const {
    // A GPU has one more step to do while the host waits for the ones before, and prints.
    const std::int64_t ahead = session.context().gpu() ? 1 : 0, all = session.steps();
    const auto now = [&](std::int64_t every) { return every > 0 && session.steps_done() % every == 0; };
    const std::int64_t stop = options_.stop_after >= 0 ? session.steps_done() + options_.stop_after : all;
    const auto impatient = [&] {
        return options_.patience > 0 && session.validations_since_best() >= options_.patience;
    };
    // What one process sees or times, all act on, at the same step.
    Group* const group = session.context().group();
    const auto agreed = [&](bool here) { return group ? any(*group, here ? 1 : 0) != 0 : here; };
    bool asked = false, first = true, early = false;
    while (session.steps_done() < std::min(stop, all) && !(asked = agreed(interrupt && interrupt->requested())) &&
           !(early = impatient())) {
        const StepCounts before = counts_of(session.context());
        const Moment begin = options_.clock();
        session.step();
        reporter.count(counts_of(session.context()) - before);
        if (std::exchange(first, false) && options_.print) name_missing_cudnn(session.context());
        const bool last = session.steps_done() == all;
        // With `best` at the last step, too, so that `save` knows of it.
        const bool validates = now(session.validate_every()) || (last && !options_.best.empty());
        const bool saves = now(options_.save_every);
        if (validates || saves || reporter.warming_up()) {
            reporter.look(0);
        } else if (agreed(reporter.due(session.steps_done() - ahead))) {
            reporter.look(ahead);
        }
        if (last_step) {
            constexpr double unknown = std::numeric_limits<double>::infinity();
            last_step->keep(validates ? unknown : seconds_between(begin, options_.clock()));
        }
        if (validates) reporter.validate();
        if (saves) reporter.save();
    }
    reporter.look(0);
    reporter.end();
    if (asked && options_.print)
        fmt::print("interrupted after step {}{}\n", session.steps_done(),
                   options_.save.empty() ? fmt::format("; no {}, not saved", options_.spell("save", "")) : "");
    if (early && options_.print)
        fmt::print("stopped after step {}: {} validations in a row brought no lower loss\n", session.steps_done(),
                   session.validations_since_best());
    return early || session.steps_done() >= all;
}

/// Where validations are most of the work, which nobody expects behind a training of few steps.
void Trainer::announce_validations(const Session& session) const {
    const std::int64_t done = session.steps_done(), left = std::max<std::int64_t>(session.steps() - done, 0);
    const std::int64_t steps = options_.stop_after >= 0 ? std::min(options_.stop_after, left) : left;
    const std::int64_t every = session.validate_every(), end = done + steps;
    const bool at_end = steps == left && (every == 0 || steps == 0 || end % every != 0);  // behind no other step
    const std::int64_t validations = (every > 0 ? end / every - done / every : 0) + (at_end ? 1 : 0);
    constexpr std::int64_t few = 10;
    const std::int64_t batches = validations * session.validation_batches();
    if (batches < few || batches <= steps * options_.accumulate) return;
    say("the training takes {} batch{}, {} {}", steps * options_.accumulate,
        steps * options_.accumulate == 1 ? "" : "es", validations == 1 ? "and its validation" : "each validation",
        session.validation_batches());
    std::fflush(stdout);
}

Report Trainer::train_session(Context& context) const {
    if (is_first(context)) {
        for (const std::string& file : {options_.save, options_.best}) {
            if (!file.empty()) files::to_replace(file);  // refused now, and not when there is something to save
        }
    }
    Session session(context, task_, options_);
    std::optional<Interrupt> interrupt;
    if (options_.handle_signals) interrupt.emplace();
    Reporter reporter(session, *this);
    if (options_.print) announce_validations(session);
    if (options_.print && !options_.resume.empty() && session.steps_done() >= session.steps())
        fmt::print("nothing to train: {} steps are done, {} were asked for\n", session.steps_done(), session.steps());
    std::optional<LastStep> last_step;
    if (interrupt && context.group() && is_first(context) && !options_.save.empty()) {
        if (LastStep::keeps(session)) {
            last_step.emplace(session, options_.save, *interrupt, options_.clock);
        } else if (options_.print) {
            say("a signal ends a training at its next step; a launcher that kills all processes earlier (mpirun: after "
                "2 s) loses what {} has not saved: send SIGINT to one process, or give mpirun --mca "
                "odls_base_sigkill_timeout 60",
                options_.spell("save_every", ""));
        }
    }
    Report report;
    try {
        report.complete =
            run_steps(session, reporter, interrupt ? &*interrupt : nullptr, last_step ? &*last_step : nullptr);
        last_step.reset();
    } catch (const UnreadableBatch&) {
        last_step.reset();
        reporter.look(0);
        reporter.end();
        if (options_.save.empty()) throw;
        reporter.save();
        if (options_.print)
            say("saved to {} after step {}; {} continues from there", options_.save, session.steps_done(),
                options_.spell("resume", ""));
        throw;
    }
    if (session.loading_seconds() > 0) {
        report.loading_share = session.loading_seconds() / reporter.seconds();
        if (options_.print)
            fmt::print("waiting for data took {:.1f}% of the steps' time\n", 100 * *report.loading_share);
    }
    report.train_loss = reporter.loss();
    report.rate = reporter.rate();
    report.step_seconds = reporter.step_seconds();
    report.last_step = reporter.last_step();
    report.steps = session.steps_done();
    report.graph_refusal = session.graph_refusal();
    if (!options_.save.empty()) {
        reporter.save();
        if (options_.print) say("saved to {}", options_.save);
    }
    context.save_tuning();
    if (interrupt && !report.complete) report.signal = interrupt->signal();
    interrupt.reset();  // nothing is lost any more
    if (report.complete) {
        report.validation = reporter.validate();
        session.end();
    }
    report.state_sha256 = session.state_sha256();
    if (context.group()) {
        report.ranks.push_back({.parameter_bytes = session.allocated_bytes(Category::parameters),
                                .optimizer_state_bytes = session.allocated_bytes(Category::optimizer_state)});
    }
    return report;
}

Report Trainer::train(Context& context, const Forecast& forecast) {
    if (is_first(context)) return train_as_told(context, forecast);
    Trainer silent = *this;
    silent.options_.print = false;
    silent.options_.log = silent.options_.tensorboard = silent.options_.memory_history = "";
    return silent.train_as_told(context, forecast);
}

Report Trainer::train_as_told(Context& context, const Forecast& forecast) const {
    Report report;
    const Profile profile = context.profile();  // the program's, not the budget's
    try {
        const std::size_t budget = options_.limit();  // whose plan may take more on another device
        const BudgetLimit limit(context.memory(), budget > 0 ? std::max(budget, forecast.peak.reserved) : 0);
        with_history(context, options_.memory_history, title(), [&] { report = train_session(context); });
    } catch (const OutOfMemory& error) {
        throw beside_others(error, profile, task_, options_, forecast);
    }
    const MemoryStatistics memory = context.memory().statistics();
    report.peak_bytes_allocated = memory.peak_allocated;
    report.peak_bytes_reserved = memory.peak_reserved;
    report.used = unaccounted_device_bytes(context);
    report.forecast = forecast;
    if (Group* group = context.group()) {
        RankReport& own = report.ranks.front();
        own.peak_bytes_allocated = memory.peak_allocated;
        own.peak_bytes_reserved = memory.peak_reserved;
        own.predicted_bytes_allocated = forecast.peak.allocated;
        own.predicted_bytes_reserved = forecast.peak.reserved;
        own.sent_bytes = report.last_step.sent_bytes;
        own.exchanges = report.last_step.exchanges;
        own.seconds_waited = group->traffic().seconds_waited;
        report.ranks = gather_ranks(*group, own);
    }
    if (options_.print) {
        const bool exceeds = memory.peak_allocated > forecast.peak.allocated && forecast.grows_by == 0;
        fmt::print("peak memory {}, predicted {}{}\n", size_text(memory.peak_allocated),
                   size_text(forecast.peak.allocated),
                   exceeds ? ": a batch had a different shape than the first ones, or work depended on values" : "");
        if (report.used) {
            const std::size_t reserve = context.profile().reserved_bytes();
            fmt::print("beside it, the driver, its libraries and others use {}{}\n", size_text(*report.used),
                       *report.used <= reserve ? ""
                                               : fmt::format(", more than the {} that were left to them: {}",
                                                             size_text(reserve), options_.spell("gpu_reserve", "")));
        }
    }
    return report;
}

}  // namespace headroom::training
