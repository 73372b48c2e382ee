#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <headroom/kernels/random/philox.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::nn {

namespace {

/// An index drawn with probability softmax(logits / temperature) among the k largest, given u in [0, 1).
std::int32_t draw(const std::vector<float>& logits, const SamplingOptions& options, double u) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto larger = [&](std::int32_t a, std::int32_t b) {
        const float x = logits[static_cast<std::size_t>(a)];
        const float y = logits[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    };
    const auto all = static_cast<std::int64_t>(order.size());
    const std::int64_t kept = options.top_k > 0 ? std::min(options.top_k, all) : all;
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), larger);
    if (options.temperature == 0.0) return order[0];
    const double largest = logits[static_cast<std::size_t>(order[0])];
    std::vector<double> cumulative;
    double total = 0.0;
    for (std::int64_t i = 0; i < kept; ++i) {
        const double logit = logits[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
        cumulative.push_back(total += std::exp((logit - largest) / options.temperature));
    }
    const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), u * total);
    const auto position = std::min<std::int64_t>(found - cumulative.begin(), kept - 1);
    return order[static_cast<std::size_t>(position)];
}

void check(const std::vector<std::int32_t>& prompt, std::int64_t count, const SamplingOptions& options) {
    if (prompt.empty()) throw Error("generate: the prompt is empty; give at least one token");
    if (count < 0) throw Error(fmt::format("generate: the number of tokens must not be negative, got {}", count));
    if (!(options.temperature >= 0.0)) {
        throw Error(fmt::format("generate: the temperature must be at least 0, got {}", options.temperature));
    }
    if (options.top_k < 0) throw Error(fmt::format("generate: top_k must be at least 0, got {}", options.top_k));
}

/// Evaluation mode until the scope ends, however it ends.
class EvaluationMode {
  public:
    explicit EvaluationMode(Parameters& parameters) : parameters_(parameters), training_(parameters.training()) {
        parameters_.train(false);
    }
    ~EvaluationMode() { parameters_.train(training_); }
    EvaluationMode(const EvaluationMode&) = delete;
    EvaluationMode& operator=(const EvaluationMode&) = delete;

  private:
    Parameters& parameters_;
    bool training_;
};

}  // namespace

std::vector<std::int32_t> generate(const Gpt& model, const std::vector<std::int32_t>& prompt, std::int64_t count,
                                   const SamplingOptions& options) {
    check(prompt, count, options);
    Context& context = model.context();
    NoGradGuard no_grad(context);
    const EvaluationMode evaluation(model.parameters());
    const auto key =
        kernels::random_key(context.seed(), kernels::RandomDomain::sampling, context.take_random_counter());
    const auto block = static_cast<std::size_t>(model.options.block);
    std::vector<std::int32_t> text = prompt;
    std::vector<KeyValue> caches = model.caches();
    std::size_t seen = text.size() > block ? text.size() - block : 0;  // the first position that the caches lack
    std::size_t cached = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        if (cached + (text.size() - seen) > block) {  // start again with the newer half
            caches = model.caches();
            cached = 0;
            seen = text.size() - std::max<std::size_t>(1, block / 2);
        }
        const std::vector<std::int32_t> fresh(text.begin() + static_cast<std::ptrdiff_t>(seen), text.end());
        const Tensor ids = context.from_host(fresh, {1, static_cast<std::int64_t>(fresh.size())});
        const Tensor logits = model(ids, &caches).select(1, -1);
        cached += fresh.size();
        seen = text.size();
        const auto step = static_cast<std::uint64_t>(i);
        text.push_back(
            draw(logits.to_vector<float>(), options, kernels::uniform_from(kernels::philox(key, step / 4)[step % 4])));
    }
    return text;
}

}  // namespace headroom::nn
