#include <headroom/nn/sampling.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

const SamplingOptions& checked(const SamplingOptions& options) {
    if (!(options.temperature >= 0.0)) {
        throw Error(fmt::format("sampling: the temperature must be at least 0, got {}", options.temperature));
    }
    if (options.top_k < 0) throw Error(fmt::format("sampling: top_k must be at least 0, got {}", options.top_k));
    return options;
}

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

}  // namespace

TokenDraws::TokenDraws(Context& context, const SamplingOptions& options)
    : options_(checked(options)), key_(context.next_random(kernels::RandomDomain::sampling)) {}

std::int32_t TokenDraws::operator()(const Tensor& logits) {
    if (!logits.defined() || logits.numel() == 0) throw Error("sampling: the logits are undefined or empty");
    const std::uint64_t draw_number = draws_++;
    return draw(logits.to_vector<float>(), options_,
                kernels::uniform_from(kernels::philox(key_, draw_number / 4)[draw_number % 4]));
}

}  // namespace headroom::nn
