// Training steps of whole models on random data: seconds, on a GPU also those that the host needs to queue a step, and
// the peak beside what a rehearsal predicted. With --device dry only the prediction, on any machine. One JSON object on
// standard output. scripts/gpu runs it; memory_speed compares techniques, and PyTorch.
//   model_step --model resnet50 --batch 8 --height 224 --width 224 --recompute cheap
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/bench/gpu/host_time.hpp>
#include <headroom/core/context.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/examples/models/task.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/internal/one_line.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace {

using namespace headroom;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Flags {
    std::string device = "cpu", model = "resnet50", dtype = "f32", recompute = "none";
    std::int64_t batch = 8, height = 224, width = 224, classes = 1000, warmup = 2, steps = 5;
    int threads = 0;
    double memory = 141e9;  // of the GPU that is rehearsed
    bool convolutions = false;
    ComputeOptions compute;
};

/// The training of the flags.
struct Work {
    explicit Work(const Flags& flags)
        : sizes{.batch = flags.batch,
                .height = flags.height,
                .width = flags.width,
                .block = flags.height,
                .classes = flags.classes},
          task(models::task_of(model(flags), sizes)),
          options(models::options_of(model(flags), sizes, flags.dtype, "sgd")) {
        options.recompute = model(flags).way(flags.recompute).name;
    }
    static const models::Model& model(const Flags& flags) { return models::named(models::all(), flags.model); }

    models::Sizes sizes;
    training::MakeTask task;
    training::TrainerOptions options;
};

Rehearsal rehearsed(const Profile& profile, const Flags& flags, const Work& work) {
    return rehearse(profile, [&](Context& dry) {
        training::Trainer(work.task, work.options).rehearse(dry);
        if (!flags.convolutions) return;
        const auto& stream = std::get<kernels::DryStream>(dry.stream());
        for (const std::string& text : kernels::rehearsed_convolutions(stream)) fmt::print("{}\n", text);
    });
}

/// Multiplications and additions of a micro-batch, as its ops say.
double operations_of(const RecordedProgram& program) {
    double sum = 0;
    for (const RecordedOp& op : program.ops) sum += op.operations.forward * (1 + op.replays) + op.operations.backward;
    return sum;
}

Context make_context(const Flags& flags) {
    const ContextOptions options{.threads = flags.threads, .compute = flags.compute};
    return flags.device == "cuda" ? Context::cuda(0, options) : Context::cpu(options);
}

/// "on", "off", or why not.
std::string graphs_of(const Flags& flags, const training::Session& training) {
    if (!flags.compute.graphs) return "off";
    const std::string refusal = training.graph_refusal();
    return refusal.empty() ? "on" : kernels::one_line(refusal);
}

/// Which libraries computed on a GPU, and what did instead of them; empty words on a processor.
struct Libraries {
    explicit Libraries(Context& context) {
        if (!context.gpu()) return;
        auto& stream = std::get<CudaStream>(context.stream());
        attention = kernels::attention_library(stream);
        products = kernels::matmul_library(stream);
        convolutions = kernels::convolution_library(stream);
    }
    std::string attention, products, convolutions;
};

/// Numbers that are not finite become null.
void print(const Json& object) { std::puts(object.dump().c_str()); }

void run(const Flags& flags) {
    const Work work(flags);
    if (flags.device == "dry") {
        Profile profile = Profile::gpu(static_cast<std::size_t>(flags.memory));
        profile.compute = flags.compute;
        const Rehearsal rehearsal = rehearsed(profile, flags, work);
        if (flags.convolutions) return;
        print({{"model", flags.model},
               {"batch", flags.batch},
               {"predicted_bytes", rehearsal.peak.allocated},
               {"predicted_reserved", rehearsal.peak.reserved},
               {"operations", operations_of(rehearsal.program)}});
        return;
    }
    Context context = make_context(flags);
    const Rehearsal rehearsal = rehearsed(context.profile(), flags, work);
    training::Session training(context, work.task, work.options);
    for (std::int64_t i = 0; i < flags.warmup; ++i) training.step();
    double loss = training.results().back().loss;
    std::vector<double> seconds;
    const auto waits = [&] { return context.gpu() ? context.gpu()->host_waits() : 0; };
    const std::int64_t waits_before = waits();
    const std::uint64_t replayed_before = context.tape().statistics().replayed;
    const std::uint64_t calls_before = context.memory().statistics().driver_calls;
    for (std::int64_t i = 0; i < flags.steps; ++i) {
        const auto begin = Clock::now();
        training.step();
        loss = training.results().back().loss;
        seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    const std::uint64_t replayed = context.tape().statistics().replayed - replayed_before;
    const std::uint64_t driver_calls = context.memory().statistics().driver_calls - calls_before;
    const std::int64_t waited = context.gpu() ? waits() - waits_before - flags.steps : 0;  // but for each step's loss
    Json host;  // null on a processor, which computes while it queues
    if (context.gpu()) {
        host = queueing_seconds(*context.gpu(), flags.steps, [&] { training.step(); });
        loss = training.results().back().loss;
    }
    const double seconds_per_step = median(seconds);
    const Libraries libraries(context);
    const memory::MemoryStatistics memory = context.memory().statistics();
    print({{"framework", "headroom"},
           {"model", flags.model},
           {"dtype", flags.dtype},
           {"batch", flags.batch},
           {"height", flags.height},
           {"width", flags.width},
           {"recompute", flags.recompute},
           {"tune", flags.compute.tune},
           {"graphs", graphs_of(flags, training)},
           {"parameters", training.parameters()},
           {"seconds", seconds_per_step},
           {"host_seconds", host},
           {"samples_per_second", static_cast<double>(flags.batch) / seconds_per_step},
           {"loss", loss},
           {"peak_bytes", memory.peak_allocated},
           {"predicted_bytes", rehearsal.peak.allocated},
           {"predicted_reserved", rehearsal.peak.reserved},
           {"operations", operations_of(rehearsal.program)},
           {"peak_reserved", memory.peak_reserved},
           {"replayed_ops", replayed / static_cast<std::uint64_t>(flags.steps)},
           {"driver_calls", driver_calls},
           {"host_waits", waited},
           {"attention", libraries.attention},
           {"products", libraries.products},
           {"convolutions", libraries.convolutions}});
}

}  // namespace

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Times training steps of a model on random data.", "model_step");
    app.add_option("--device", flags.device)->check(CLI::IsMember({"cpu", "cuda", "dry"}))->capture_default_str();
    app.add_option("--model", flags.model)->check(CLI::IsMember(models::names(models::all())))->capture_default_str();
    app.add_option("--dtype", flags.dtype)->check(CLI::IsMember({"f32", "bf16", "f16"}))->capture_default_str();
    app.add_option("--recompute", flags.recompute, "one of the model's ways of recomputing")->capture_default_str();
    app.add_option("--memory", flags.memory, "bytes of the GPU that --device dry rehearses")->capture_default_str();
    app.add_option("--threads", flags.threads, "CPU threads; 0: one per processor")->capture_default_str();
    app.add_flag("--convolutions", flags.convolutions, "with --device dry: print each request to cuDNN on a line");
    app.add_flag("--tf32", flags.compute.tf32, "compute f32 products in TF32");
    app.add_flag("--graphs", flags.compute.graphs, "launch micro-batches and steps as CUDA graphs");
    app.add_flag("--tune", flags.compute.tune, "try several algorithms for each product and convolution");
    for (const auto& [name, value] : {std::pair{"--batch", &flags.batch},
                                      {"--height", &flags.height},
                                      {"--width", &flags.width},
                                      {"--classes", &flags.classes},
                                      {"--warmup", &flags.warmup},
                                      {"--steps", &flags.steps}}) {
        app.add_option(name, *value)->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))->capture_default_str();
    }
    CLI11_PARSE(app, argc, argv);
    try {
        run(flags);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("model_step: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
