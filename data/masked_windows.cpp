#include <headroom/data/masked_windows.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <headroom/data/counter_random.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {

MaskedWindows::MaskedWindows(TokenView tokens, std::int64_t length, SpecialTokens special, MaskedWindowsOptions options)
    : tokens_(tokens), length_(length), special_(special), options_(options) {
    if (length < 3 || tokens.size() < length - 2)
        throw ShapeError(fmt::format("{} tokens are too few for a window of {}, two of which are [CLS] and [SEP]",
                                     tokens.size(), length));
    if (!(options.probability > 0 && options.probability <= 1))
        throw Error(
            fmt::format("the probability of masked tokens must be above 0 and at most 1, got {}", options.probability));
    for (const std::int32_t token : {special.cls, special.sep, special.mask})
        if (token < 0 || token >= tokens.vocabulary_size())
            throw Error(fmt::format("the special token {} is outside of the vocabulary of {}", token,
                                    tokens.vocabulary_size()));
}

void MaskedWindows::read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const {
    const auto width = static_cast<std::size_t>(length_);
    batch.rows = static_cast<std::int64_t>(indices.size());
    batch.length = length_;
    batch.inputs.resize(indices.size() * width);
    batch.targets.assign(indices.size() * width, -100);
    for (std::size_t row = 0; row < indices.size(); ++row) {
        if (indices[row] < 0 || indices[row] >= size())
            throw ShapeError(fmt::format("window {} is out of range; the text has {}", indices[row], size()));
        const std::span<std::int32_t> inputs = std::span(batch.inputs).subspan(row * width, width);
        tokens_.copy(indices[row] * (length_ - 2), inputs.subspan(1, width - 2));
        inputs.front() = special_.cls;
        inputs.back() = special_.sep;
        Draws draws(options_.seed, first_draw + row);
        for (std::size_t i = 1; i + 1 < width; ++i) {
            if (!draws.chance(options_.probability)) continue;
            batch.targets[row * width + i] = inputs[i];
            const double share = draws.uniform(0, 1);
            if (share < 0.8)
                inputs[i] = special_.mask;
            else if (share < 0.9)
                inputs[i] = static_cast<std::int32_t>(draws.below(tokens_.vocabulary_size()));
        }
    }
}

}  // namespace headroom::data
