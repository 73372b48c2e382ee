// Training steps of GPT-2 (124M by default) on random tokens, on a GPU: tokens per second, the time that the host needs
// to queue a step, and peak memory, beside what a rehearsal predicted. In steps that are timed, the host should wait
// for nothing and the allocator ask nothing of the driver: such calls are counted. With --device dry only the
// prediction, on any machine. One JSON object on standard output.
//   gpt2_step --dtype bf16 --batch 64 --steps 20
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/bench/gpu/host_time.hpp>
#include <headroom/core/context.hpp>
#include <headroom/core/overhead.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/core/scratch_budget.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/internal/one_line.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace {

using namespace headroom;

struct Flags {
    std::string device = "cuda", dtype = "bf16", recompute = "none";
    std::int64_t batch = 8, accumulate = 1, time = 1024, layers = 12, heads = 12, width = 768, vocabulary = 50304;
    std::int64_t warmup = 5, steps = 20;
    bool half_residual = false;
    double memory = 141e9;  // of the GPU that is rehearsed
    double lr = 1e-4;
    ComputeOptions compute;
    bool fit_scratch = false;
};

std::optional<Dtype> autocast_dtype(const std::string& dtype) {
    if (dtype == "bf16") return Dtype::bf16;
    if (dtype == "f16") return Dtype::f16;
    return std::nullopt;
}

/// One training, on a real context or in a rehearsal.
class Training {
  public:
    Training(Context& context, const Flags& flags)
        : context_(context),
          flags_(flags),
          parameters_(context),
          model_(nn::Path(parameters_), {.vocabulary = flags.vocabulary,
                                         .block = flags.time,
                                         .layers = flags.layers,
                                         .heads = flags.heads,
                                         .width = flags.width,
                                         .half_residual = flags.half_residual}),
          optimizer_(parameters_, {.weight_decay = 0.1}),
          accumulator_(parameters_, optimizer_,
                       {.clip = 1.0, .scale = flags.dtype == "f16" ? optim::LossScale::dynamic() : optim::LossScale()}),
          feed_(context) {
        if (flags.recompute == "blocks") context.policy("blocks.*", recompute_all());
        if (flags.recompute == "cheap") context.policy("blocks.*", recompute_cheap());
        std::mt19937_64 random(1);
        std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(flags.vocabulary - 1));
        for (std::vector<std::int32_t>* values : {&inputs_, &targets_}) {
            for (std::int64_t i = 0; i < flags.batch * flags.time; ++i) values->push_back(token(random));
        }
    }

    void step() {
        for (std::int64_t i = 0; i < flags_.accumulate; ++i) {
            const Shape shape{flags_.batch, flags_.time};
            accumulator_.accumulate(micro_batch_, feed_.upload({{inputs_, shape}, {targets_, shape}}));
        }
        accumulator_.step(flags_.lr);
    }
    optim::StepResult result() const { return accumulator_.result(); }
    std::string graph_refusal() const { return accumulator_.graph_refusal(); }
    std::int64_t parameters() const { return parameters_.count(); }

  private:
    Context& context_;
    Flags flags_;
    Parameters parameters_;
    nn::Gpt model_;
    optim::AdamW optimizer_;
    optim::GradientAccumulator accumulator_;
    optim::GraphedWork micro_batch_ = accumulator_.graph<2>([this](const Tensor& inputs, const Tensor& targets) {
        Autocast autocast(context_, autocast_dtype(flags_.dtype));
        return model_.loss(inputs, targets);
    });
    data::Feed feed_;
    std::vector<std::int32_t> inputs_, targets_;
};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// What keeps the host from queueing work, since the context was made.
struct HostCalls {
    explicit HostCalls(Context& context)
        : waits(context.gpu()->host_waits()),
          allocator_waits(context.memory().statistics().synchronizations),
          driver_calls(context.memory().statistics().driver_calls) {}
    std::int64_t waits;
    std::uint64_t allocator_waits, driver_calls;
};

/// Numbers that are not finite become null.
void print(const nlohmann::ordered_json& object) { std::puts(object.dump().c_str()); }

/// From the third one on, all steps are alike in what they keep.
void take_three_steps(Context& context, const Flags& flags) {
    Training training(context, flags);
    for (int i = 0; i < 3; ++i) training.step();
}

/// "on", "off", or why not.
std::string graphs_of(const Flags& flags, const Training& training) {
    if (!flags.compute.graphs) return "off";
    const std::string refusal = training.graph_refusal();
    return refusal.empty() ? "on" : kernels::one_line(refusal);
}

Profile profile_of(const Flags& flags) {
    if (flags.device == "cuda") return Context::cuda(0, {.compute = flags.compute}).profile();
    Profile profile = Profile::gpu(static_cast<std::size_t>(flags.memory));
    profile.compute = flags.compute;
    return profile;
}

MemoryPeak rehearsed_peak(const Profile& profile, const Flags& flags) {
    return rehearse(profile, [&](Context& dry) { take_three_steps(dry, flags); }).peak;
}

void run(Flags flags) {
    if (flags.fit_scratch) {
        flags.compute.scratch_budget =
            fit_scratch_budget(profile_of(flags), [&](Context& rehearsal) { take_three_steps(rehearsal, flags); });
    }
    if (flags.device == "dry") {
        const MemoryPeak predicted = rehearsed_peak(profile_of(flags), flags);
        print({{"dtype", flags.dtype},
               {"batch", flags.batch},
               {"scratch_budget", flags.compute.scratch_budget},
               {"predicted_allocated", predicted.allocated},
               {"predicted_reserved", predicted.reserved}});
        return;
    }
    Context context = Context::cuda(0, {.compute = flags.compute});
    const MemoryPeak predicted = rehearsed_peak(context.profile(), flags);
    Training training(context, flags);
    const auto first = Clock::now();
    training.step();
    context.gpu()->synchronize();
    const double first_milliseconds = milliseconds_since(first);
    for (std::int64_t i = 1; i < flags.warmup; ++i) training.step();
    const double first_loss = training.result().loss;
    context.gpu()->synchronize();
    const HostCalls before(context);
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < flags.steps; ++i) training.step();
    const HostCalls after(context);
    context.gpu()->synchronize();
    const double milliseconds = milliseconds_since(begin) / static_cast<double>(flags.steps);
    const double host = queueing_seconds(*context.gpu(), flags.steps, [&] { training.step(); });
    const MemoryStatistics measured = context.memory().statistics();
    auto& stream = std::get<CudaStream>(context.stream());
    const auto tokens = static_cast<double>(flags.accumulate * flags.batch * flags.time);
    print({{"framework", "headroom"},
           {"dtype", flags.dtype},
           {"batch", flags.batch},
           {"accumulate", flags.accumulate},
           {"time", flags.time},
           {"half_residual", flags.half_residual},
           {"recompute", flags.recompute},
           {"tf32", flags.compute.tf32},
           {"tune", flags.compute.tune},
           {"deterministic", flags.compute.deterministic},
           {"scratch_budget", flags.compute.scratch_budget},
           {"graphs", graphs_of(flags, training)},
           {"parameters", training.parameters()},
           {"tokens_per_second", std::round(1e3 * tokens / milliseconds)},
           {"milliseconds_per_step", milliseconds},
           {"host_milliseconds_per_step", 1e3 * host},
           {"first_step_milliseconds", first_milliseconds},
           {"loss", training.result().loss},
           {"loss_after_warmup", first_loss},
           {"host_waits", after.waits - before.waits},
           {"allocator_waits", after.allocator_waits - before.allocator_waits},
           {"driver_calls", after.driver_calls - before.driver_calls},
           {"peak_allocated", measured.peak_allocated},
           {"peak_reserved", measured.peak_reserved},
           {"predicted_allocated", predicted.allocated},
           {"predicted_reserved", predicted.reserved},
           {"used", unaccounted_device_bytes(context).value_or(0)},
           {"attention", kernels::attention_library(stream)},
           {"products", kernels::matmul_library(stream)}});
}

}  // namespace

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Times training steps of GPT-2 on random tokens.", "gpt2_step");
    app.add_option("--device", flags.device)->check(CLI::IsMember({"cuda", "dry"}))->capture_default_str();
    app.add_option("--dtype", flags.dtype)->check(CLI::IsMember({"f32", "bf16", "f16"}))->capture_default_str();
    app.add_option("--recompute", flags.recompute)->check(CLI::IsMember({"none", "cheap", "blocks"}));
    app.add_flag("--half-residual", flags.half_residual, "keep the residual stream between blocks in --dtype");
    app.add_option("--memory", flags.memory, "bytes of the GPU that --device dry rehearses")->capture_default_str();
    app.add_option("--lr", flags.lr, "learning rate")->capture_default_str();
    app.add_flag("--tf32", flags.compute.tf32, "compute f32 products in TF32");
    app.add_flag("--tune", flags.compute.tune, "try several algorithms for each product and attention");
    app.add_flag("--graphs", flags.compute.graphs, "launch micro-batches and steps as CUDA graphs");
    bool nondeterministic = false;
    app.add_flag("--nondeterministic", nondeterministic, "allow bits to differ between runs");
    app.add_option("--scratch-budget", flags.compute.scratch_budget, "scratch bytes that an op may take to run faster");
    app.add_flag(
        "--fit-scratch", flags.fit_scratch,
        "rehearse to find the largest scratch budget, at least --scratch-budget, that does not raise the peak");
    for (const auto& [name, value] : {std::pair{"--batch", &flags.batch},
                                      {"--accumulate", &flags.accumulate},
                                      {"--time", &flags.time},
                                      {"--layers", &flags.layers},
                                      {"--heads", &flags.heads},
                                      {"--width", &flags.width},
                                      {"--vocabulary", &flags.vocabulary},
                                      {"--warmup", &flags.warmup},
                                      {"--steps", &flags.steps}}) {
        app.add_option(name, *value)->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))->capture_default_str();
    }
    CLI11_PARSE(app, argc, argv);
    flags.compute.deterministic = !nondeterministic;
    try {
        run(flags);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("gpt2_step: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
