#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::nn {

namespace {

void check(const std::vector<std::int32_t>& prompt, std::int64_t count) {
    if (prompt.empty()) throw Error("generate: the prompt is empty; give at least one token");
    if (count < 0) throw Error(fmt::format("generate: the number of tokens must not be negative, got {}", count));
}

}  // namespace

std::vector<std::int32_t> generate(const Gpt& model, const std::vector<std::int32_t>& prompt, std::int64_t count,
                                   const SamplingOptions& options) {
    check(prompt, count);
    Context& context = model.context();
    const EvaluationScope evaluation(model.parameters());
    const KeptCasts casts(context);
    TokenDraws draw(context, options);
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
        text.push_back(draw(logits));
    }
    return text;
}

}  // namespace headroom::nn
