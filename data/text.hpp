#pragma once
// Reads a text file as tokens and splits them for training and validation. Tokens are bytes or characters; the
// vocabulary consists of the characters that occur in the file. The whole text is in memory; for larger texts, write
// token files and map them (tokens.hpp).
//
//     data::TextCorpus corpus = data::TextCorpus::characters("input.txt", {.block = 64});
//     data::TokenSplit parts = corpus.split();  // 90% and 10%
//     int64_t classes = corpus.vocabulary().size();
//     auto prompt = corpus.vocabulary().encode("ROMEO:");
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include <headroom/data/tokens.hpp>
#include <headroom/data/vocabulary.hpp>

namespace headroom::data {

/// The contents of a UTF-8 file. Errors: FileError as `read_file`, or with the offset of the first byte that is not
/// UTF-8 or is zero (a binary file).
std::string read_text(const std::filesystem::path& path);

struct TextOptions {
    /// Length in tokens of the windows that will be read: the training part must have at least block + 1 tokens, the
    /// validation part 2.
    std::int64_t block = 1;
    /// The fraction of tokens for training, in [0, 1].
    double train_fraction = 0.9;
};

class TextCorpus {
  public:
    /// Tokens are characters. Errors: FileError as `read_text`, and for a text too short for `options`.
    static TextCorpus characters(const std::filesystem::path& path, const TextOptions& options = {});
    /// Tokens are the bytes of any file. Errors: FileError as `read_file`, and for a file too short for `options`.
    static TextCorpus bytes(const std::filesystem::path& path, const TextOptions& options = {});
    /// Uses an existing model's vocabulary. Errors: as above; FileError for a character that is not in the vocabulary.
    static TextCorpus encoded(const std::filesystem::path& path, const Vocabulary& vocabulary,
                              const TextOptions& options = {});

    const Vocabulary& vocabulary() const { return vocabulary_; }
    /// All tokens. Valid until this corpus is destroyed, moved from or assigned to.
    TokenView tokens() const;
    /// The training and validation parts; valid as long as `tokens`.
    TokenSplit split() const { return split_tokens(tokens(), train_fraction_); }

  private:
    using Storage = std::variant<std::vector<std::int32_t>, std::vector<std::uint8_t>>;
    TextCorpus(const std::filesystem::path& path, Vocabulary vocabulary, Storage tokens, const TextOptions& options);

    Vocabulary vocabulary_;
    Storage tokens_;
    double train_fraction_;
};

}  // namespace headroom::data
