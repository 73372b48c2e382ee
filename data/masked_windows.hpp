#pragma once
// Windows over tokens for training BERT: [CLS], consecutive tokens, [SEP]; some of the tokens are hidden, for the model
// to guess (Devlin and others, 2019: BERT, 3.1). Each is chosen with a probability; of those, 80% become [MASK], 10%
// any token of the vocabulary, and 10% stay. The choice differs each time that a window is drawn. Not for pairs of
// sentences.
//
//     const auto tokenizer = data::WordPiece::read("vocab.txt");
//     const std::vector<int32_t> tokens = tokenizer.encode(text);
//     const data::MaskedWindows windows({tokens, tokenizer.size()}, /*length=*/128,
//                                       {tokenizer.cls(), tokenizer.sep(), tokenizer.mask()});
//     data::DataLoader loader(windows, data::Sampler::shuffled(windows.size(), 16, seed), {.workers = 1});
#include <cstdint>
#include <span>

#include <headroom/data/text_windows.hpp>
#include <headroom/data/tokens.hpp>

namespace headroom::data {

/// Ids of special tokens, as `WordPiece` has them.
struct SpecialTokens {
    std::int32_t cls, sep, mask;
};

struct MaskedWindowsOptions {
    double probability = 0.15;
    std::uint64_t seed = 0;
};

class MaskedWindows {
  public:
    /// `targets` are the tokens that were chosen, and -100 elsewhere, the `ignore_index` of `cross_entropy`.
    using Batch = TokenBatch;

    /// `tokens` must outlive this; windows do not overlap, and tokens left over at the end are not used. Errors:
    /// ShapeError if `length` is below 3 or there are fewer than length - 2 tokens; Error for a probability outside of
    /// (0, 1], or special tokens that are not in the vocabulary.
    MaskedWindows(TokenView tokens, std::int64_t length, SpecialTokens special, MaskedWindowsOptions options = {});

    std::int64_t size() const { return tokens_.size() / (length_ - 2); }

    /// Errors: ShapeError for an index outside of [0, size()); Error for a token that is not in the vocabulary.
    void read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const;

  private:
    TokenView tokens_;
    std::int64_t length_;
    SpecialTokens special_;
    MaskedWindowsOptions options_;
};

}  // namespace headroom::data
