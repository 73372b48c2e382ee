#include <headroom/examples/compare/memory_speed.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/cli/gpu_flags.hpp>
#include <headroom/examples/cli/model_flags.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/output_file.hpp>
#include <headroom/examples/cli/processes.hpp>
#include <headroom/examples/cli/result_head.hpp>
#include <headroom/examples/cli/sizes.hpp>
#include <headroom/examples/models/peers.hpp>
#include <headroom/examples/models/techniques.hpp>
#include <headroom/examples/speed/page.hpp>
#include <headroom/files/text_file.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/training/say.hpp>

namespace headroom::compare {

namespace {

using Json = nlohmann::ordered_json;

struct Flags {
    std::string model;
    techniques::Question question;
    std::string device = "cpu", json, html, history;
    cli::GpuFlags gpu;
    int threads = 0;
    bool peers = false;
    Json head;  ///< of files
};

void add_flags(cli::App& app, const std::vector<models::Model>& models, Flags& flags) {
    using cli::add_option;
    techniques::Question& question = flags.question;
    add_option(app, "--model", flags.model, "model to train, on random data")
        .required()
        .check(cli::one_of(models::names(models)));
    cli::add_model_flags(app, "--effective-batch", question.sizes, question.dtype, question.optimizer);
    add_option(app, "--techniques", question.techniques, "techniques to compare, separated by commas; all by default")
        .delimiter(',')
        .check(cli::one_of(techniques::names()));
    add_option(app, "--budgets", question.budgets,
               "number of budgets to plan for, from the least possible to one that keeps everything")
        .check(cli::whole(1, 1000))
        .show_default();
    add_option(app, "--steps", question.steps, "steps of each training; the second half is timed")
        .check(cli::whole(2, 1000))
        .show_default();
    add_option(app, "--rounds", question.rounds, "number of rounds; each runs every training once")
        .check(cli::whole(1, 100))
        .show_default();
    add_option(app, "--device", flags.device, "cpu, cuda, or dry, which trains nothing and predicts everything")
        .check(cli::one_of({"cpu", "cuda", "dry"}))
        .show_default();
    flags.gpu.add(app);
    add_option(app, "--threads", flags.threads, "CPU threads; 0: one per processor").check(cli::whole(0, 1024));
    cli::add_flag(app, "--peers", flags.peers,
                  "also run PyTorch's trainings, in turn with the others; python3 must have PyTorch");
    add_option(app, "--within", question.within,
               "memory to fit into: says which trainings fit, makes a plan that does, and finds the largest "
               "micro-batch; by default what a training may take of --gpu or --gpu-memory")
        .check(cli::bytes());
    add_option(app, "--json", flags.json, "JSON file for the rows");
    add_option(app, "--html", flags.html, "HTML file for the page");
    add_option(app, "--memory-history", flags.history,
               "HTML file with the memory of each training over time, on one scale");
    app.when_parsed([&app, &flags] { flags.gpu.check(app, flags.device); });
}

Context make_context(const Flags& flags, const ComputeOptions& compute) {
    const ContextOptions options{.threads = flags.threads, .gpu_reserve = flags.gpu.reserve, .compute = compute};
    return flags.device == "cuda" ? Context::cuda(0, options) : Context::cpu(options);
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Measured, or predicted where nothing was trained; of PyTorch, none then.
std::optional<double> seconds_of(const techniques::Row& row) {
    return row.step_seconds.empty() ? row.forecast.step_seconds : median(row.step_seconds);
}
std::optional<double> samples_per_second(const techniques::Row& row) {
    const std::optional<double> seconds = seconds_of(row);
    if (!seconds) return seconds;
    return static_cast<double>(row.options.batch * row.options.accumulate) / *seconds;
}

/// Reserved; of PyTorch on a CPU, which reserves nothing, allocated.
std::size_t memory_of(const techniques::Row& row) {
    if (row.peer.empty()) return row.forecast.peak.reserved;
    return row.peak_bytes_reserved > 0 ? row.peak_bytes_reserved : row.peak_bytes_allocated;
}

/// Whether the row takes at most the bytes of the question, if that has any.
std::optional<bool> fits(const techniques::Row& row, std::size_t within) {
    if (within == 0 || !row.refused.empty()) return {};
    return memory_of(row) <= within;
}

Json json_of(const techniques::Row& row, std::size_t within, bool cuda) {
    const bool trained = !row.step_seconds.empty();
    const training::Forecast& forecast = row.forecast;
    const auto ours = [&](const auto& value) { return row.peer.empty() ? Json(value) : Json(); };
    const auto measured = [&](const auto& value) { return trained ? Json(value) : Json(); };
    const auto on_gpu = [&](std::int64_t count) { return trained && cuda ? ours(count) : Json(); };
    const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
    Json bytes = Json::object();
    const std::vector<memory::NamedCategory> categories = category_names();
    for (std::size_t i = 0; i < categories.size(); ++i) bytes[categories[i].name] = forecast.peak.by_category[i];
    return {{"framework", row.peer.empty() ? "headroom" : "pytorch"},
            {"technique", row.technique},
            {"name", row.name},
            {"dtype", row.dtype},
            {"optimizer", row.optimizer},
            {"batch", row.options.batch},
            {"accumulate", row.options.accumulate},
            {"recompute", ours(row.budget > 0 ? "plan" : row.options.recompute)},
            {"budget_bytes", row.budget > 0 ? Json(row.budget) : Json()},
            {"parameters", row.parameters > 0 ? Json(row.parameters) : Json()},
            {"peak_bytes_allocated", measured(row.peak_bytes_allocated)},
            {"peak_bytes_reserved", row.peak_bytes_reserved > 0 ? Json(row.peak_bytes_reserved) : Json()},
            {"peak_bytes_allocated_predicted", ours(forecast.peak.allocated)},
            {"peak_bytes_reserved_predicted", ours(forecast.peak.reserved)},
            {"bytes", ours(bytes)},
            {"step_seconds", trained ? optional(seconds_of(row)) : Json()},
            {"step_seconds_runs", row.step_seconds},
            {"step_seconds_predicted", optional(forecast.step_seconds)},
            {"samples_per_second", optional(samples_per_second(row))},
            {"loss", measured(row.loss)},
            {"same_bits", optional(row.same_bits)},
            {"largest_batch", optional(row.largest)},
            {"fits", optional(fits(row, within))},
            {"replayed_ops", trained ? ours(row.last_step.replayed_ops) : optional(forecast.replayed_ops)},
            {"driver_calls", trained ? ours(row.driver_calls) : Json()},
            {"host_waits", on_gpu(row.last_step.host_waits)},
            {"launches", on_gpu(row.last_step.launches)},
            {"used", optional(row.used)},
            {"refused", row.refused.empty() ? Json() : Json(row.refused)}};
}

Json comparison_of(const Flags& flags, const Profile& profile, const techniques::Comparison& comparison) {
    const models::Model& model = flags.question.model;
    const plan::Machine machine = plan::Machine::of(profile);
    Json json = flags.head;
    json.update({{"headroom_memory_speed", 1},
                 {"model", model.name},
                 {"inputs", model.inputs(flags.question.sizes)},
                 {"samples", models::plural(model.samples)},
                 {"effective_batch", flags.question.sizes.batch},
                 {"machine",
                  {{"cpu", profile.cuda() ? Json() : Json(machine.name)},
                   {"threads", machine.threads},
                   {"gpu", profile.cuda() ? Json(machine.name) : Json()}}},
                 {"within_bytes", flags.question.within > 0 ? Json(flags.question.within) : Json()},
                 {"rows", Json::array()},
                 {"larger", Json::array()}});
    for (const techniques::Row& row : comparison.rows)
        json["rows"].push_back(json_of(row, flags.question.within, profile.cuda()));
    for (const techniques::Larger& larger : comparison.larger) {
        json["larger"].push_back({{"machine", larger.machine},
                                  {"recompute", larger.recompute},
                                  {"batch", larger.batch},
                                  {"peak_bytes_reserved_predicted", larger.forecast.peak.reserved},
                                  {"step_seconds_predicted", larger.forecast.step_seconds.value()}});
    }
    return json;
}

void print(const std::vector<techniques::Row>& rows, std::size_t within) {
    fmt::print("{:<34}{:<12}{:>6}{:>7}{:>10}{:>5}{:>10}{:>12}{:>12}{:>9}  {}\n", "", "", "dtype", "batch", "reserved",
               within > 0 ? "fits" : "", "step", "samples/s", "recomputed", "largest", "bits");
    for (const techniques::Row& row : rows) {
        fmt::print("{:<34}{:<12}", (row.peer.empty() ? "" : "PyTorch: ") + row.technique, row.name);
        if (!row.refused.empty()) {
            fmt::print("  {}\n", row.refused);
            continue;
        }
        fmt::print("{:>6}{:>7}{:>10}{:>5}{:>9.3g}s{:>12.4g}{:>12}{:>9}  {}\n", row.dtype,
                   fmt::format("{}x{}", row.options.accumulate, row.options.batch),
                   memory::format_bytes(memory_of(row)),
                   !fits(row, within)   ? ""
                   : *fits(row, within) ? "yes"
                                        : "no",
                   seconds_of(row).value(), samples_per_second(row).value(), row.forecast.replayed_ops.value_or(0),
                   row.largest ? fmt::format("{}", *row.largest) : "",
                   !row.same_bits   ? ""
                   : *row.same_bits ? "same as without recomputing"
                                    : "DIFFERENT from without recomputing");
    }
    std::fflush(stdout);
}

/// Of Headroom's rows that could be rehearsed; what was predicted is what was measured.
void write_history(const Flags& flags, const Profile& profile, std::vector<techniques::Row> rows) {
    std::erase_if(rows, [](const techniques::Row& row) { return !row.peer.empty() || row.parameters == 0; });
    const std::vector<memory::MemorySnapshot> snapshots = techniques::histories(flags.question, rows, profile);
    std::vector<memory::NamedSnapshot> named;
    for (std::size_t i = 0; i < rows.size(); ++i)
        named.push_back({fmt::format("{}: {}", rows[i].technique, rows[i].name), &snapshots[i], true});
    memory::write_html_report(named, flags.history);
}

void answer(Flags flags) {
    if (flags.peers && flags.device == "dry") throw cli::WrongUsage("--peers trains, which --device dry does not");
    if (flags.peers && !flags.question.model.has_peer)
        throw cli::WrongUsage(fmt::format("--peers: there is no PyTorch training of {}; leave it out", flags.model));
    cli::expect_writable("--json", flags.json);
    cli::expect_writable("--html", flags.html);
    cli::expect_writable("--memory-history", flags.history);
    cli::expect_apart({{"--json", flags.json}, {"--html", flags.html}, {"--memory-history", flags.history}}, {});
    flags.question.sizes = flags.question.model.completed(flags.question.sizes);
    techniques::Comparison comparison;
    const Profile profile = flags.gpu.described() ? flags.gpu.profile() : make_context(flags, {}).profile();
    if (flags.gpu.described()) {
        training::say("{}", training::memory_text(profile));
        if (flags.question.within > profile.usable_bytes())
            throw Error(
                fmt::format("--within {}: use at most --within {}", flags.question.within, profile.usable_bytes()));
        if (flags.question.within == 0) flags.question.within = profile.usable_bytes();
    }
    if (flags.device == "dry") {
        comparison = techniques::rehearsed(flags.question, profile);
    } else {
        const auto make = [&](const ComputeOptions& compute) { return make_context(flags, compute); };
        const auto watch = [&](const techniques::Row& row, std::int64_t round) {
            training::say("round {} of {}: {}{}, {}", round + 1, flags.question.rounds,
                          row.peer.empty() ? "" : "PyTorch: ", row.technique, row.name);
            std::fflush(stdout);  // rounds take minutes
        };
        std::optional<techniques::Peers> peers;
        if (flags.peers) peers.emplace(flags.question, flags.device, profile.threads);
        comparison = techniques::compared(flags.question, make, watch, peers ? &*peers : nullptr);
    }
    print(comparison.rows, flags.question.within);
    const Json json = comparison_of(flags, profile, comparison);
    if (!flags.json.empty()) files::write_text(flags.json, "the rows", json.dump(1) + '\n');
    if (!flags.html.empty()) speed::write_speed_page(json, flags.html);
    if (!flags.history.empty()) write_history(flags, profile, comparison.rows);
}

}  // namespace

int memory_speed(int argc, char** argv, const std::vector<models::Model>& models, const std::string& examples) {
    cli::App app("Shows what each way to save memory costs and saves.", cli::name_of(argv[0]));
    app.before_parse([&] { models::check(models); });
    Flags flags;
    add_flags(app, models, flags);
    app.footer(examples);
    flags.head = cli::result_head("what each technique costs and saves", argc, argv);
    return cli::run(app, argc, argv, [&] {
        cli::expect_alone(app.name().c_str());
        flags.question.model = models::named(models, flags.model);
        answer(flags);
    });
}

}  // namespace headroom::compare
