#pragma once
// Windows over tokens for training a language model: the inputs are `block` tokens, the targets the same tokens shifted
// by one. Windows at every offset are for random draws in training, consecutive windows for one pass over all tokens.
// Not for padded documents of different lengths.
//
//     data::TextWindows windows(corpus.split().train, /*block=*/64, data::WindowStart::every_token);
//     data::DataLoader loader(windows, data::Sampler::with_replacement(windows.size(), /*batch=*/12, seed));
//     data::TextWindows held_out(corpus.split().validation, 64, data::WindowStart::every_block);
//     data::DataLoader evaluation(held_out, held_out.in_order(/*batch=*/12), {.epochs = 1});
#include <cstdint>
#include <span>
#include <vector>

#include <headroom/data/dataset.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/data/tokens.hpp>

namespace headroom::data {

struct TokenBatch {
    std::int64_t rows = 0;
    std::int64_t length = 0;
    std::vector<std::int32_t> inputs;   // [rows, length]
    std::vector<std::int32_t> targets;  // [rows, length]: targets[r, i] follows inputs[r, i] in the text
};

/// every_token: window i begins at token i, all have length block (as in nanoGPT's get_batch). every_block: window i
/// begins at token i * block; every token but the first is a target exactly once, so the last window may be shorter.
enum class WindowStart { every_token, every_block };

class TextWindows {
  public:
    using Batch = TokenBatch;

    /// `tokens` must outlive this. Errors: ShapeError if block < 1 or there are too few tokens: every_token needs
    /// block + 1, every_block needs 2.
    TextWindows(TokenView tokens, std::int64_t block, WindowStart start);

    std::int64_t size() const { return count_; }
    /// Windows of length block: size(), or one less if the last is shorter.
    std::int64_t full_windows() const { return full_; }
    std::int64_t block() const { return block_; }
    /// Length of window `index`. Errors: ShapeError outside of [0, size()).
    std::int64_t length(std::int64_t index) const;

    /// All windows once, in order; a shorter last window gets its own batch. Errors: Error if batch < 1.
    Sampler in_order(std::int64_t batch) const;

    /// Errors: ShapeError for an index outside of [0, size()), or windows of different lengths; Error for a token that
    /// is not in the vocabulary.
    void read(std::span<const std::int64_t> indices, Batch& batch) const;

  private:
    TokenView tokens_;
    std::int64_t block_;
    std::int64_t stride_;
    std::int64_t count_;
    std::int64_t full_;
};

}  // namespace headroom::data
