// Writes the recorded traces anew: training runs of this framework on a dry context, whose memory traffic is the real
// one, and scripted programs for what it can't run yet. All are deterministic.
//   record_traces FOLDER
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/bench/traces/scripted.hpp>
#include <headroom/bench/traces/trace.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace {

using namespace headroom;
using namespace headroom::nn;
using namespace headroom::optim;
using namespace headroom::traces;

constexpr std::size_t kEvents = 1'000'000;
constexpr GptOptions kGpt2{};  // 124 million parameters

/// The lengths of one micro-batch.
struct Sizes {
    std::int64_t batch;
    std::int64_t time;
};

/// Token ids: a dry context never looks at them.
Tensor some_ids(Context& context, const Sizes& sizes) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(sizes.batch * sizes.time));
    return context.from_host(ids, {sizes.batch, sizes.time});
}

/// Steps of a model from its first parameter on. `loss` gets the model and the number of the micro-batch.
template <class Model, class Options, class Loss>
Trace record(const std::string& name, const std::string& origin, const Options& options, int steps, int accumulate,
             const std::function<void(Context&)>& prepare, Loss&& loss) {
    Context context = Context::dry({.threads = 2, .seed = 1});
    prepare(context);
    context.memory().start_history(kEvents);
    Parameters parameters(context);
    const Model model(Path(parameters), options);
    AdamW optimizer(parameters);
    GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    context.memory().begin_step();  // the next ones begin with the end of a window's step
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < accumulate; ++i) {
            accumulator.accumulate([&] { return loss(context, model, step * accumulate + i); });
        }
        accumulator.step(1e-3);
    }
    return trace_of(context.memory().snapshot(), name, origin);
}

Loss gpt_batch(Context& context, const Gpt& model, const Sizes& sizes) {
    const Tensor ids = some_ids(context, sizes);
    const Tensor targets = some_ids(context, sizes);
    return model.loss(ids, targets);
}

Trace fixed() {
    return record<Gpt>(
        "fixed", "recorded: GPT-2 124M, 2 micro-batches of 2 x 1024 tokens a step", kGpt2, 6, 2, [](Context&) {},
        [](Context& context, const Gpt& model, int) {
            return gpt_batch(context, model, {2, 1024});
        });
}

Trace recompute() {
    return record<Gpt>(
        "recompute", "recorded: GPT-2 124M, 2 micro-batches of 8 x 1024 tokens a step, blocks recomputed", kGpt2, 6, 2,
        [](Context& context) { context.policy("blocks.*", recompute_all()); },
        [](Context& context, const Gpt& model, int) {
            return gpt_batch(context, model, {8, 1024});
        });
}

/// Lengths as of documents, cut to what the model takes.
Trace variable() {
    std::mt19937 random(20240607);
    std::lognormal_distribution<double> length(6.2, 0.7);
    return record<Gpt>(
        "variable", "recorded: GPT-2 124M, 2 micro-batches of 4 x up to 1024 tokens a step", kGpt2, 24, 2,
        [](Context&) {},
        [&](Context& context, const Gpt& model, int) {
            const double time = std::clamp(length(random), 16.0, 1024.0);
            return gpt_batch(context, model, {4, static_cast<std::int64_t>(time)});
        });
}

struct ExpertsOptions {
    std::int64_t layers = 6;
    std::int64_t width = 512;
    std::int64_t heads = 8;
    std::int64_t experts = 8;
    std::int64_t vocabulary = 32000;
};

/// Which expert each token goes to. A real run reads this from the router's output; a rehearsal draws it.
struct Routing {
    Routing(Context& context, std::int64_t tokens, std::int64_t experts, std::mt19937& random)
        : counts(static_cast<std::size_t>(experts)) {
        std::vector<double> weights;
        std::normal_distribution<double> normal(0.0, 0.6);
        for (std::int64_t e = 0; e < experts; ++e) weights.push_back(std::exp(normal(random)));
        std::discrete_distribution<std::int32_t> draw(weights.begin(), weights.end());
        std::vector<std::int32_t> chosen;
        for (std::int64_t t = 0; t < tokens; ++t) ++counts[static_cast<std::size_t>(chosen.emplace_back(draw(random)))];
        std::vector<std::int32_t> sorted(static_cast<std::size_t>(tokens));
        std::iota(sorted.begin(), sorted.end(), 0);
        std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) {
            return chosen[static_cast<std::size_t>(a)] < chosen[static_cast<std::size_t>(b)];
        });
        std::vector<std::int32_t> back(sorted.size());
        for (std::size_t i = 0; i < sorted.size(); ++i) {
            back[static_cast<std::size_t>(sorted[i])] = static_cast<std::int32_t>(i);
        }
        expert = context.from_host(chosen, {tokens, 1});
        order = context.from_host(sorted, {tokens});
        inverse = context.from_host(back, {tokens});
    }
    std::vector<std::int64_t> counts;  ///< tokens of each expert
    Tensor expert;                     ///< i32 [tokens, 1]
    Tensor order;                      ///< tokens by expert
    Tensor inverse;
};

/// Norm, attention, norm, and a feed-forward part of which each token takes one of several. Fedus et al. 2021, "Switch
/// Transformers", arXiv:2101.03961.
struct ExpertBlock : Module<ExpertBlock> {
    ExpertBlock(const Path& path, const ExpertsOptions& options)
        : Module(path),
          norm1(path / "norm1", options.width),
          attention(path / "attention", {.width = options.width, .heads = options.heads}),
          norm2(path / "norm2", options.width),
          router(path / "router", options.width, options.experts) {
        for (std::int64_t e = 0; e < options.experts; ++e) {
            experts.emplace_back(path / "experts" / e, MlpOptions{.width = options.width, .hidden = 4 * options.width});
        }
    }

    Tensor forward(Tensor x, std::mt19937& random) const {
        Tensor branch = attention(norm1(x));
        x = add(std::move(branch), std::move(x));
        const std::int64_t width = x.size(-1);
        const Tensor rows = norm2(x).reshape({-1, width});
        const Routing routing(context(), rows.size(0), static_cast<std::int64_t>(experts.size()), random);
        const Tensor gate = gather(softmax(router(rows)), -1, routing.expert);
        const Tensor sorted = index_select(rows, 0, routing.order);
        std::vector<Tensor> outputs;
        std::int64_t begin = 0;
        for (std::size_t e = 0; e < experts.size(); ++e) {
            const std::int64_t count = routing.counts[e];
            if (count > 0) outputs.push_back(experts[e](sorted.slice(0, begin, begin + count)));
            begin += count;
        }
        branch = mul(index_select(cat(std::move(outputs)), 0, routing.inverse), gate).reshape(x.shape());
        return add(std::move(branch), std::move(x));
    }

    LayerNorm norm1;
    SelfAttention attention;
    LayerNorm norm2;
    Linear router;
    std::vector<Mlp> experts;
};

struct ExpertsModel : Module<ExpertsModel> {
    ExpertsModel(const Path& path, const ExpertsOptions& options)
        : Module(path), tokens(path / "tokens", options.vocabulary, options.width), norm(path / "norm", options.width) {
        for (std::int64_t i = 0; i < options.layers; ++i) blocks.emplace_back(path / "blocks" / i, options);
    }
    Loss loss(const Tensor& ids, const Tensor& targets, std::mt19937& random) const {
        Tensor x = tokens(ids);
        for (const ExpertBlock& block : blocks) x = block(std::move(x), random);
        x = norm(std::move(x)).reshape({-1, tokens.weight.size(1)});
        return linear_cross_entropy(std::move(x), tokens.weight, targets.reshape({-1}));
    }

    Embedding tokens;
    LayerNorm norm;
    std::vector<ExpertBlock> blocks;
};

Trace experts() {
    std::mt19937 random(20240607);
    return record<ExpertsModel>(
        "experts", "recorded: 6 blocks of width 512 with 8 experts each, 8 x 1024 tokens, which go to one of them",
        ExpertsOptions{}, 12, 1, [](Context&) {},
        [&](Context& context, const ExpertsModel& model, int) {
            const Sizes sizes{8, 1024};
            const Tensor ids = some_ids(context, sizes);
            return model.loss(ids, ids, random);
        });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        fmt::print(stderr, "usage: record_traces FOLDER\n");
        return 2;
    }
    try {
        for (Trace (*make)() : {fixed, variable, recompute, offload, experts, four_streams, side_stream}) {
            const Trace trace = make();
            write_trace(trace, fmt::format("{}/{}.trace.gz", argv[1], trace.name));
            fmt::print("{:<14}{:>8} operations {:>4} steps {:>8.1f} MB at most\n", trace.name, trace.operations.size(),
                       steps(trace), static_cast<double>(peak_live(trace)) / 1e6);
        }
    } catch (const std::exception& error) {
        std::fputs(fmt::format("record_traces: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return 0;
}
