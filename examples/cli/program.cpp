#include <headroom/examples/cli/program.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/examples/cli/loss_curve.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/processes.hpp>
#include <headroom/examples/cli/summary.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>

namespace headroom::cli {

using training::say;
using training::size_text;

namespace {

using Clock = std::chrono::steady_clock;

/// An option as a flag.
std::string flag(bool gpu_described, const std::string& name, const std::string& value) {
    if (name == "autocast") return "--dtype f32";
    if (name == "split_batch") return "--split-batch";
    if (name == "device" && !gpu_described) return fmt::format("a device with {}", size_text(std::stoull(value)));
    std::string spelled = name == "peak"           ? "lr"
                          : name == "warmup_steps" ? "warmup"
                          : name == "device"       ? "gpu-memory"
                          : name == "average"      ? "ema-decay"
                          : name == "clip"         ? "max-grad-norm"
                                                   : name;
    std::ranges::replace(spelled, '_', '-');
    return fmt::format("--{}{}{}", spelled, value.empty() ? "" : " ", value);
}

/// Lines about images that are skipped, each once.
class SkipReport {
  public:
    explicit SkipReport(const Program& program) : program_(program) {}

    /// Of those that were found since the last call.
    std::vector<std::string> news() {
        if (!program_.skipped) return {};
        std::vector<std::string> found = program_.skipped();
        std::erase_if(found, [&](const std::string& one) { return !said_.insert(one).second; });
        if (found.empty()) return {};
        constexpr std::size_t named = 10;
        std::vector<std::string> lines{fmt::format("skipping {} bad image{} and using others instead:", found.size(),
                                                   found.size() == 1 ? "" : "s")};
        for (std::size_t i = 0; i < std::min(found.size(), named); ++i) lines.push_back("  " + found[i]);
        if (found.size() > named) lines.push_back(fmt::format("  and {} more", found.size() - named));
        return lines;
    }

  private:
    const Program& program_;
    std::set<std::string> said_;
};

/// Which libraries computed, and what did instead of them.
void print_libraries(Context& context) {
    launch(context.stream(), [](auto& stream) {
        if constexpr (std::is_same_v<decltype(stream), kernels::CudaStream&>) {
            fmt::print("products: {}\nattention: {}\nconvolutions: {}\n", kernels::matmul_library(stream),
                       kernels::attention_library(stream), kernels::convolution_library(stream));
        }
    });
}

/// The losses of a training, drawn at its end.
void follow(training::Trainer& trainer, LossCurve& curve) {
    trainer.after_step([&](const training::Step& step) {
        if (step.result.finite) curve.training.push_back({step.number, step.result.loss});
    });
    trainer.after_validation([&](const training::ValidatedStep& step) {
        curve.validation.push_back({step.number, step.validation.loss});
    });
}

/// Errors: Error for a step on the command line that is neither the plan's nor the one that it divides.
void expect_of_plan(const Flags& flags, const plan::Plan& plan, const std::string& source) {
    std::vector<std::string> given;
    bool as_planned = true;
    std::int64_t samples = 1;
    for (const auto& [name, value, planned] :
         {std::tuple{"batch", flags.trainer.batch, plan.division.batch},
          std::tuple{"accumulate", flags.trainer.accumulate, plan.division.accumulate}}) {
        if (!flags.stored || !flags.stored->given(name)) continue;
        given.push_back(fmt::format("--{} {}", name, value));
        as_planned = as_planned && value == planned;
        samples *= value;
    }
    if (given.empty() || as_planned || samples == plan.division.batch * plan.division.accumulate) return;
    throw Error(
        fmt::format("{}: the plan of {} has {} micro-batches of {}; leave this out, or make a new plan with --budget",
                    fmt::join(given, " "), source, plan.division.accumulate, plan.division.batch));
}

/// Times that were measured, if the flags ask for some.
void use_costs(training::Trainer& trainer, const Flags& flags, const Profile& profile) {
    if (!flags.costs.empty()) trainer.use(plan::read_costs(flags.costs, profile));
    if (flags.calibrate.empty()) return;
    Flags plain = flags;
    plain.compute.graphs = false;
    Context context = make_context(plain, profile.in_use);
    plan::Costs costs = trainer.calibrate(context);
    plan::write_costs(flags.calibrate, costs, plan::Machine::of(context.profile()));
    say("measured how long ops take; the times are in {}", flags.calibrate);
    trainer.use(std::move(costs));
}

/// Where something was planned, or costs were given.
void say_step_seconds(const Summary& summary) {
    const training::Report& report = summary.report;
    if (!report.step_seconds || (!report.planned && !summary.measured_costs)) return;
    const double predicted = report.planned ? report.planned->plan.step_seconds : *report.forecast.step_seconds;
    say("a step took {:.3g} s, predicted {:.3g} s{}", *report.step_seconds, predicted,
        summary.measured_costs ? "" : " from assumed rates");
}

/// A plan that was made before: of --plan, or of the training to resume.
void follow_known_plan(training::Trainer& trainer, const Flags& flags, const Profile& profile) {
    if (!flags.plan.empty()) {
        const plan::Plan plan = plan::read_plan(flags.plan);
        trainer.check(plan, profile);
        expect_of_plan(flags, plan, flags.plan);
        trainer.apply(plan);
        say("plan of {}: {}", flags.plan, plan.to_string());
    } else if (flags.trainer.budget == 0 && !flags.recompute_given) {
        if (const auto plan = trainer.apply_saved(profile)) {
            expect_of_plan(flags, *plan, flags.resume());
            say("plan of {}: {}", flags.resume(), plan->to_string());
        }
    }
}

void draw(const LossCurve& curve, const Flags& flags) {
    std::filesystem::create_directories(flags.pictures);
    write_loss_curve(std::filesystem::path(flags.pictures) / "loss.svg", curve);
    say("drew the losses in {}", flags.pictures);
}

/// They outlive the trainer.
training::TrainerOptions trainer_options(const Flags& flags, const Program& program) {
    training::TrainerOptions options = flags.trainer;
    options.steps = flags.steps;
    options.schedule.floor = flags.floor();
    options.schedule.decay_steps = flags.steps;
    options.autocast = flags.autocast();
    if (flags.shard != "none") options.shard = flags.shard == "state" ? Shard::state : Shard::gradients;
    if (flags.keep_batch || flags.split_batch) options.split_batch = flags.split_batch;
    options.resume = flags.resume();
    options.data = program.data;
    options.unit = program.unit;
    options.units = program.units;
    options.optimizer =
        training::optimizer_named(flags.optimizer, {.beta2 = flags.beta2, .weight_decay = flags.weight_decay},
                                  {.momentum = flags.momentum, .weight_decay = flags.weight_decay});
    options.spell = [described = flags.gpu.described()](const std::string& name, const std::string& value) {
        return flag(described, name, value);
    };
    if (flags.stored) {
        options.values = [&flags] {
            const std::string budget = fmt::to_string(flags.compute.scratch_budget);
            return StateValues{{StoredFlags::value_name(flags.trainer.name),
                                flags.stored->text({{"scratch-budget", budget},
                                                    {"batch", fmt::to_string(flags.trainer.batch)},
                                                    {"accumulate", fmt::to_string(flags.trainer.accumulate)}})}};
        };
    }
    return options;
}

}  // namespace

void train(const Flags& flags, const std::function<Program()>& read) {
    const NamedFiles checkpoints{{"--save", flags.trainer.save}, {"--best", flags.trainer.best}};
    const NamedFiles reports{{"--json", flags.json},
                             {"--log", flags.trainer.log},
                             {"--memory-history", flags.trainer.memory_history},
                             {"--tune", flags.tuning_file},
                             {"--save-plan", flags.save_plan},
                             {"--calibrate", flags.calibrate}};
    NamedFiles outputs = checkpoints;
    outputs.insert(outputs.end(), reports.begin(), reports.end());
    for (const auto& [flag, file] : world().rank() == 0 ? outputs : reports) expect_writable(flag, file);
    expect_folder("--tensorboard", flags.trainer.tensorboard);
    expect_folder("--pictures", flags.pictures);
    const Clock::time_point begin = Clock::now();
    if (const std::string file = flags.resume(); !file.empty()) {
        const std::vector<std::string>& anew = flags.stored->anew();
        say("resuming {} with its flags{}{}", file, anew.empty() ? "" : "; given again: ", fmt::join(anew, ", "));
    }
    const Program program = read();
    expect_apart(outputs, program.reads);
    expect_apart(reports, {{"--resume", flags.resume()}});  // which a checkpoint may replace
    Flags fitted = flags;                                   // with those that `read` has set
    // One for all: what a GPU has in use differs from one look to the next.
    Profile profile = profile_of(flags);
    if (flags.trainer.budget == 0 && (flags.keep_batch || flags.split_batch))
        fitted.trainer.budget = profile.usable_bytes();
    training::Trainer trainer(program.task, trainer_options(fitted, program));
    use_costs(trainer, flags, profile);
    follow_known_plan(trainer, fitted, profile);
    trainer.after_plan([&](const training::Planned& planned) {
        if (flags.explain) fmt::print("{}", planned.explanation);
        if (!flags.save_plan.empty()) plan::write_plan(flags.save_plan, planned.plan);
    });
    trainer.news([&, said = std::size_t{0}]() mutable {
        const auto first = flags.notes->begin() + static_cast<std::ptrdiff_t>(std::exchange(said, flags.notes->size()));
        return std::vector<std::string>(first, flags.notes->end());
    });
    SkipReport skipped(program);
    trainer.news([&] { return skipped.news(); });
    LossCurve curve;
    if (!flags.pictures.empty()) follow(trainer, curve);
    Summary summary;
    summary.rate_name = program.unit + "_per_second";
    summary.measured_costs = trainer.options().costs.has_value();
    summary.budget = fitted.trainer.budget;
    summary.batch = flags.trainer.batch;
    summary.accumulate = flags.trainer.accumulate;
    const auto settle = [&](const ComputeOptions& compute) {
        fitted.compute = compute;
        fitted.trainer.batch = summary.batch = trainer.options().batch;
        fitted.trainer.accumulate = summary.accumulate = trainer.options().accumulate;
    };
    std::unique_ptr<Context> context;
    training::MakeContext make;
    if (flags.device != "dry") {
        make = [&](const Profile& settled) -> Context& {
            settle(settled.compute);
            context = std::unique_ptr<Context>(new Context(make_context(fitted, settled.in_use)));
            return *context;
        };
    }
    try {
        summary.report = trainer.run(profile, make);
    } catch (const plan::BudgetTooSmall& error) {
        summary.refused = error;
        if (!flags.json.empty()) write_summary(flags.json, summary);
        throw;
    } catch (const training::UnreadableBatch& error) {
        if (!error.image()) throw;
        throw FileError(std::string(error.what()) + "; --skip-bad-images uses another in its place");
    }
    training::Report& report = summary.report;
    settle(report.compute);
    if (flags.ranks > 0) {
        profile.compute = report.compute;
        report.ranks = trainer.rehearse_ranks(profile);
    }
    if (context) say_step_seconds(summary);
    if (context && !flags.pictures.empty()) draw(curve, flags);
    if (context && flags.libraries) print_libraries(*context);
    if (program.skipped) summary.skipped_images = program.skipped().size();
    if (!report.graph_refusal.empty()) fmt::print("not all work was done by graphs: {}\n", report.graph_refusal);
    summary.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (!flags.json.empty()) write_summary(flags.json, summary);
    if (report.signal != 0) throw Interrupted(report.signal);
}

}  // namespace headroom::cli
