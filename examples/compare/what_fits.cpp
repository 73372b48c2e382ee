#include <headroom/examples/compare/what_fits.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
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
#include <headroom/examples/models/fits.hpp>
#include <headroom/files/text_file.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::compare {

namespace {

constexpr std::size_t kLeastGpu = 1'000'000;
const std::vector<std::string> kUsualMemories{"8GB", "11GB", "12GB", "16GB", "24GB", "40GB", "80GB", "141GB"};

struct Flags {
    std::vector<std::string> models, memories, gpus;
    std::size_t reserve = kGpuReserve;
    fits::Question question;
    bool keep_batch = false, split_batch = false;
    std::string json;
    nlohmann::ordered_json head;  ///< of that file
};

std::vector<std::string> all_methods(const std::vector<models::Model>& models) {
    std::vector<std::string> methods;
    for (const models::Model& model : models) {
        for (const std::string& method : fits::methods_of(model, {})) {
            if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
        }
    }
    return methods;
}

void add_flags(cli::App& app, const std::vector<models::Model>& models, Flags& flags) {
    using cli::add_option;
    fits::Question& question = flags.question;
    std::vector<std::string> names = models::names(models);
    names.insert(names.begin(), "all");
    add_option(app, "--model", flags.models, "models, separated by commas, or all")
        .required()
        .delimiter(',')
        .check(cli::one_of(names));
    cli::add_model_flags(app, "--batch", question.sizes, question.dtype, question.optimizer);
    add_option(
        app, "--gpu-memory", flags.memories,
        fmt::format("memory sizes of GPUs, separated by commas, such as 8GB or 24GiB, all as fast as an H100 ({})",
                    fmt::join(kUsualMemories, ",")))
        .delimiter(',')
        .check(cli::bytes());
    cli::add_gpu_names(app, flags.gpus, "GPUs, separated by commas");
    cli::add_gpu_reserve(app, flags.reserve);
    add_option(app, "--methods", question.methods,
               "methods to compare: the models' own ways, as with --recompute of the training programs, and plan, as "
               "with --budget; all by default")
        .delimiter(',')
        .check(cli::one_of(all_methods(models)));
    const cli::Option keep = cli::add_flag(app, "--keep-batch", flags.keep_batch, "plans keep the micro-batch");
    cli::add_flag(app, "--split-batch", flags.split_batch,
                  "plans may use smaller micro-batches, even where layers normalise by the statistics of one")
        .excludes(keep);
    add_option(
        app, "--largest", question.largest,
        "find the largest batch (which plans keep), block or height (the width follows) that fits, all else equal")
        .check(cli::one_of({"batch", "block", "height"}));
    add_option(app, "--json", flags.json, "JSON file for the rows");
}

/// What is left to check, and to complete, when all flags are known. Errors: cli::WrongUsage.
void complete(Flags& flags, const std::vector<models::Model>& models) {
    fits::Question& question = flags.question;
    if (std::ranges::find(flags.models, "all") != flags.models.end()) flags.models = models::names(models);
    if (flags.memories.empty() && flags.gpus.empty()) flags.memories = kUsualMemories;
    for (const std::string& memory : flags.memories) {
        question.gpus.push_back(Profile::gpu(cli::parse_bytes(memory).value()));
        if (question.gpus.back().memory.total_bytes < kLeastGpu)
            throw cli::WrongUsage(fmt::format("--gpu-memory {} is a number of bytes; write 8GB, for example", memory));
    }
    for (const std::string& name : flags.gpus) question.gpus.push_back(Profile::gpu(gpu_model(name)));
    for (Profile& gpu : question.gpus) gpu.reserve = flags.reserve;
    if (flags.keep_batch || flags.split_batch) question.split_batch = flags.split_batch;
    for (const std::string& name : flags.models) {
        const models::Model& model = models::named(models, name);
        if (fits::methods_of(model, question).empty())
            throw cli::WrongUsage(fmt::format("--methods {}: {} has {}", fmt::join(question.methods, ","), name,
                                              fmt::join(fits::methods_of(model, {}), ", ")));
        if ((question.largest == "height" && model.samples != models::Samples::images) ||
            (question.largest == "block" && model.samples != models::Samples::sequences))
            throw cli::WrongUsage(
                fmt::format("--largest {} is not for {}, which reads {}", question.largest, name,
                            model.samples == models::Samples::sequences ? "tokens" : models::plural(model.samples)));
    }
}

/// "32 sequences of 1024 tokens in bf16, adamw".
std::string inputs_of(const models::Model& model, const fits::Question& question) {
    return fmt::format("{} in {}, {}", model.inputs(model.completed(question.sizes)), question.dtype,
                       question.optimizer);
}

/// A line for each method, a column for each GPU.
void print_table(const std::vector<fits::Row>& rows, const fits::Question& question,
                 const std::function<std::string(const fits::Row&)>& cell) {
    const std::size_t gpus = question.gpus.size();
    fmt::print("  {:<7}{:>10}", "", "least");
    for (std::size_t i = 0; i < gpus; ++i)
        fmt::print("{:>14}", rows[i].gpu.empty() ? memory::format_bytes(rows[i].gpu_memory) : rows[i].gpu);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const fits::Row& row = rows[i];
        if (i % gpus == 0) fmt::print("\n  {:<7}{:>10}", row.method, memory::format_bytes(row.floor_bytes));
        fmt::print("{:>14}", cell(row));
    }
    fmt::print("\n");
}

void print(const models::Model& model, const std::vector<fits::Row>& rows, const fits::Question& question) {
    fmt::print("{}: {}\n", model.name, inputs_of(model, question));
    print_table(rows, question, [](const fits::Row& row) -> std::string {
        if (!row.plan) return "-";
        const std::int64_t parts = row.plan->division.accumulate;
        return fmt::format("{:.1f} ms{}", 1e3 * row.plan->step_seconds, parts > 1 ? fmt::format(" / {}", parts) : "");
    });
    if (!question.largest.empty()) {
        fmt::print("{}: largest {}\n", model.name, question.largest);
        print_table(rows, question,
                    [](const fits::Row& row) { return row.largest ? fmt::to_string(*row.largest) : "-"; });
    }
    std::fflush(stdout);
}

nlohmann::ordered_json json_of(const models::Model& model, const fits::Row& row, const fits::Question& question) {
    nlohmann::ordered_json json{
        {"model", row.model},
        {"gpu", row.gpu.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.gpu)},
        {"gpu_memory", row.gpu_memory},
        {"usable_bytes", row.usable_bytes},
        {"method", row.method},
        {"batch", row.plan ? row.plan->division.batch : model.completed(question.sizes).batch},
        {"accumulate", row.plan ? row.plan->division.accumulate : 1},
        {"fits", row.plan.has_value()},
        {"peak_bytes_reserved_predicted", nullptr},
        {"step_seconds_predicted", nullptr},
        {"floor_bytes", row.floor_bytes},
    };
    if (row.plan) {
        json["peak_bytes_reserved_predicted"] = row.plan->peak_bytes_reserved;
        json["step_seconds_predicted"] = row.plan->step_seconds;
    }
    if (question.largest.empty()) return json;
    json["largest"] = nullptr;
    if (row.largest) json["largest"] = *row.largest;
    return json;
}

void answer(Flags flags, const std::vector<models::Model>& models) {
    complete(flags, models);
    cli::expect_writable("--json", flags.json);
    nlohmann::ordered_json json = flags.head;
    json["inputs"] = nlohmann::ordered_json::object();
    json["rows"] = nlohmann::ordered_json::array();
    fmt::print(
        "A step's time, predicted from data sheets; -: does not fit; / 4: in 4 micro-batches; {} are left to CUDA\n",
        memory::format_bytes(flags.reserve));
    for (const std::string& name : flags.models) {
        const models::Model& model = models::named(models, name);
        const std::vector<fits::Row> rows = fits::rows_of(model, flags.question);
        print(model, rows, flags.question);
        json["inputs"][name] = inputs_of(model, flags.question);
        for (const fits::Row& row : rows) json["rows"].push_back(json_of(model, row, flags.question));
    }
    if (!flags.json.empty()) files::write_text(flags.json, "the rows", json.dump(1) + '\n');
}

}  // namespace

int what_fits(int argc, char** argv, const std::vector<models::Model>& models, const std::string& examples) {
    cli::App app("Says what fits on which GPU.", cli::name_of(argv[0]));
    app.before_parse([&] { models::check(models); });
    Flags flags;
    add_flags(app, models, flags);
    app.footer(examples);
    flags.head = cli::result_head("what fits on which GPU, as rehearsed; nothing is measured", argc, argv);
    return cli::run(app, argc, argv, [&] {
        cli::expect_alone(app.name().c_str());
        answer(flags, models);
    });
}

}  // namespace headroom::compare
