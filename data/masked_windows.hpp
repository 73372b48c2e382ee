#pragma once
// Windows over tokens for training BERT: [CLS], consecutive tokens, [SEP], with some tokens masked for the model to
// predict (Devlin and others, 2019: BERT, 3.1). Each token is selected with a probability; 80% of the selected become
// [MASK], 10% a random token, and 10% stay. The selection is new each time a window is drawn. Does not make sentence
// pairs.
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

/// Ids of the special tokens, as in `WordPiece`.
struct SpecialTokens {
    std::int32_t cls, sep, mask;
};

struct MaskedWindowsOptions {
    double probability = 0.15;
    std::uint64_t seed = 0;
};

class MaskedWindows {
  public:
    /// `targets` are the selected tokens, and -100 elsewhere, the `ignore_index` of `cross_entropy`.
    using Batch = TokenBatch;

    /// `tokens` must outlive this. Windows do not overlap; leftover tokens at the end are not used. Errors: ShapeError
    /// if `length` is below 3 or there are fewer than length - 2 tokens; Error for a probability outside of (0, 1], or
    /// for special tokens outside of the vocabulary.
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
