// Says which models train on which GPUs, by which way of recomputing or by a plan, and how large they may be, without
// training and without a GPU.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/models/fits.hpp>
#include <headroom/examples/program/gpu_flags.hpp>
#include <headroom/examples/program/model_flags.hpp>
#include <headroom/examples/program/options.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/examples/program/processes.hpp>
#include <headroom/examples/program/result_head.hpp>
#include <headroom/examples/program/sizes.hpp>
#include <headroom/files/text_file.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom {
namespace {

constexpr const char* kExamples = R"(
  what_fits --model gpt2 --batch 32
  what_fits --model resnet50,unet --dtype bf16 --gpu-memory 8GiB,24GiB --methods none,plan --json fits.json
  what_fits --model gpt2 --batch 1 --largest block --gpu "RTX 3060,RTX 3090")";

constexpr std::size_t kLeastGpu = 1'000'000;
constexpr const char* kUsualMemories = "8GB,11GB,12GB,16GB,24GB,40GB,80GB,141GB";

struct Flags {
    std::vector<std::string> models;
    std::vector<std::string> memories, gpus;
    std::size_t reserve = kGpuReserve;
    fits::Question question;
    bool keep_batch = false, split_batch = false;
    std::string json;
    nlohmann::ordered_json head;  ///< of that file
};

std::vector<std::string> all_methods() {
    std::vector<std::string> methods;
    for (const auto& [name, model] : models::all()) {
        for (const std::string& method : fits::methods_of(model, {})) {
            if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
        }
    }
    return methods;
}

void add_flags(CLI::App& app, Flags& flags) {
    using program::add_option;
    fits::Question& question = flags.question;
    std::vector<std::string> names{"all"};
    for (const auto& [name, model] : models::all()) names.push_back(name);
    add_option(app, "--model", flags.models, "models, separated by commas, or all")
        ->required()
        ->delimiter(',')
        ->check(program::one_of(names));
    program::add_model_flags(app, "--batch", question.sizes, question.dtype, question.optimizer);
    add_option(app, "--gpu-memory", flags.memories,
               fmt::format("sizes of GPUs, separated by commas, such as 8GB or 24GiB, all as fast as an H100 ({})",
                           kUsualMemories))
        ->delimiter(',')
        ->transform(program::bytes());
    program::add_gpu_names(app, flags.gpus, "GPUs, separated by commas");
    program::add_gpu_reserve(app, flags.reserve);
    add_option(app, "--methods", question.methods,
               "the models' own ways of recomputing, as training programs have them by --recompute, and plan, as by "
               "--budget; all unless given")
        ->delimiter(',')
        ->check(program::one_of(all_methods()));
    CLI::Option* const keep = program::add_flag(app, "--keep-batch", flags.keep_batch, "plans keep the micro-batch");
    program::add_flag(app, "--split-batch", flags.split_batch,
                      "plans may take smaller micro-batches, also where layers normalise by the statistics of one")
        ->excludes(keep);
    add_option(
        app, "--largest", question.largest,
        "find the largest batch, which plans keep, block or height (the width follows) that fits, all else equal")
        ->check(program::one_of({"batch", "block", "height"}));
    add_option(app, "--json", flags.json, "file for the rows");
    app.footer(kExamples);
}

/// What is left to check, and to complete, when all flags are known. Errors: CLI::ValidationError.
void complete(Flags& flags) {
    fits::Question& question = flags.question;
    if (std::ranges::find(flags.models, "all") != flags.models.end()) {
        flags.models.clear();
        for (const auto& [name, model] : models::all()) flags.models.push_back(name);
    }
    if (flags.memories.empty() && flags.gpus.empty()) flags.memories = CLI::detail::split(kUsualMemories, ',');
    for (const std::string& memory : flags.memories) {
        question.gpus.push_back(Profile::gpu(program::parse_bytes(memory).value()));
        if (question.gpus.back().memory.total_bytes < kLeastGpu)
            throw CLI::ValidationError(fmt::format("--gpu-memory {} is so many bytes; write 8GB, for example", memory));
    }
    for (const std::string& name : flags.gpus) question.gpus.push_back(Profile::gpu(gpu_model(name)));
    for (Profile& gpu : question.gpus) gpu.reserve = flags.reserve;
    if (flags.keep_batch || flags.split_batch) question.split_batch = flags.split_batch;
    for (const std::string& name : flags.models) {
        const models::Model& model = models::all().at(name);
        if (fits::methods_of(model, question).empty())
            throw CLI::ValidationError(fmt::format("--methods {}: {} has {}", fmt::join(question.methods, ","), name,
                                                   fmt::join(fits::methods_of(model, {}), ", ")));
        if (question.largest == (model.reads_tokens ? "height" : "block"))
            throw CLI::ValidationError(fmt::format("--largest {} is not for {}, which reads {}", question.largest, name,
                                                   model.reads_tokens ? "tokens" : "images"));
    }
}

/// "32 sequences of 1024 tokens in bf16, adamw".
std::string inputs_of(const std::string& name, const fits::Question& question) {
    const models::Model& model = models::all().at(name);
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

void print(const std::vector<fits::Row>& rows, const fits::Question& question) {
    const std::string& model = rows.front().model;
    fmt::print("{}: {}\n", model, inputs_of(model, question));
    print_table(rows, question, [](const fits::Row& row) -> std::string {
        if (!row.plan) return "-";
        const std::int64_t parts = row.plan->division.accumulate;
        return fmt::format("{:.1f} ms{}", 1e3 * row.plan->step_seconds, parts > 1 ? fmt::format(" / {}", parts) : "");
    });
    if (!question.largest.empty()) {
        fmt::print("{}: largest {}\n", model, question.largest);
        print_table(rows, question,
                    [](const fits::Row& row) { return row.largest ? fmt::to_string(*row.largest) : "-"; });
    }
    std::fflush(stdout);
}

nlohmann::ordered_json json_of(const fits::Row& row, const fits::Question& question) {
    const models::Sizes sizes = models::all().at(row.model).completed(question.sizes);
    nlohmann::ordered_json json{
        {"model", row.model},
        {"gpu", row.gpu.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.gpu)},
        {"gpu_memory", row.gpu_memory},
        {"usable_bytes", row.usable_bytes},
        {"method", row.method},
        {"batch", row.plan ? row.plan->division.batch : sizes.batch},
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

void answer(Flags flags) {
    complete(flags);
    program::expect_writable("--json", flags.json);
    nlohmann::ordered_json json = flags.head;
    json["inputs"] = nlohmann::ordered_json::object();
    json["rows"] = nlohmann::ordered_json::array();
    fmt::print(
        "A step's time, by rates of data sheets; -: does not fit; / 4: in 4 micro-batches; {} are left to CUDA\n",
        memory::format_bytes(flags.reserve));
    for (const std::string& name : flags.models) {
        const std::vector<fits::Row> rows = fits::rows_of(name, flags.question);
        print(rows, flags.question);
        json["inputs"][name] = inputs_of(name, flags.question);
        for (const fits::Row& row : rows) json["rows"].push_back(json_of(row, flags.question));
    }
    if (!flags.json.empty()) files::write_text(flags.json, "the rows", json.dump(1) + '\n');
}

}  // namespace
}  // namespace headroom

int main(int argc, char** argv) {
    CLI::App app("Says what fits on which GPU.", "what_fits");
    headroom::Flags flags;
    flags.head =
        headroom::program::result_head("what fits on which GPU, as rehearsed; nothing is measured", argc, argv);
    headroom::add_flags(app, flags);
    return headroom::program::run(app, argc, argv, [&] {
        headroom::program::expect_alone("what_fits");
        headroom::answer(flags);
    });
}
