#include <headroom/data/text_windows.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {

TextWindows::TextWindows(TokenView tokens, std::int64_t block, WindowStart start)
    : tokens_(tokens), block_(block), stride_(start == WindowStart::every_token ? 1 : block) {
    if (block < 1) throw ShapeError(fmt::format("the block of windows must be at least 1 token, got {}", block));
    const std::int64_t targets = tokens.size() - 1;  // every token but the first
    if (targets < (start == WindowStart::every_token ? block : 1))
        throw ShapeError(fmt::format("{} tokens are too few for windows of {}; use a longer text or a shorter block",
                                     tokens.size(), block));
    full_ = start == WindowStart::every_token ? targets - block + 1 : targets / block;
    count_ = full_ + (start == WindowStart::every_block && targets % block != 0 ? 1 : 0);
}

std::int64_t TextWindows::length(std::int64_t index) const {
    if (index < 0 || index >= count_)
        throw ShapeError(fmt::format("window {} is out of range; the text has {}", index, count_));
    return index < full_ ? block_ : tokens_.size() - 1 - index * stride_;
}

Sampler TextWindows::in_order(std::int64_t batch) const {
    return Sampler::sequential(count_, batch, /*last_alone=*/full_ < count_);
}

void TextWindows::read(std::span<const std::int64_t> indices, Batch& batch) const {
    const std::int64_t length = indices.empty() ? 0 : this->length(indices[0]);
    for (const std::int64_t index : indices)
        if (this->length(index) != length)
            throw ShapeError(
                fmt::format("windows of {} and {} tokens don't fit into one batch; sample from the first {} "
                            "windows, or use in_order()",
                            length, this->length(index), full_));
    const auto width = static_cast<std::size_t>(length);
    batch.rows = static_cast<std::int64_t>(indices.size());
    batch.length = length;
    batch.inputs.resize(indices.size() * width);
    batch.targets.resize(indices.size() * width);
    for (std::size_t row = 0; row < indices.size(); ++row) {
        const std::int64_t first = indices[row] * stride_;
        tokens_.copy(first, std::span(batch.inputs).subspan(row * width, width));
        tokens_.copy(first + 1, std::span(batch.targets).subspan(row * width, width));
    }
}

}  // namespace headroom::data
