#pragma once
// What a model of language is trained on: a text, the bytes of any file, or tokens that another program made of a text.
//
//     const cli::Corpus corpus = cli::read_corpus(flags);
//     data::TextWindows windows(corpus.split.train, flags.block, data::WindowStart::every_token);
//     fmt::print("{}", corpus.decode(tokens));
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include <headroom/data/masked_windows.hpp>
#include <headroom/data/tokens.hpp>
#include <headroom/examples/cli/text_flags.hpp>

namespace headroom::cli {

struct Corpus {
    data::TokenSplit split;
    std::int64_t vocabulary = 0;
    std::string what;            ///< for people: "1115394 tokens of 65 kinds"
    nlohmann::json description;  ///< the vocabulary's, for checkpoints
    /// Text that is safe to print, with "_" for tokens behind a text's own; numbers where nothing says what tokens
    /// stand for.
    std::function<std::string(std::span<const std::int32_t>)> decode;
    std::shared_ptr<const void> storage;                 ///< of the tokens
    std::optional<data::SpecialTokens> special{};        ///< BERT's, if the vocabulary has them
    std::optional<std::int64_t> padding = std::nullopt;  ///< likewise
};

/// Errors: FileError.
Corpus read_corpus(const TextFlags& flags);
/// The same with BERT's special tokens, behind the vocabulary's own where that has none.
Corpus read_special_corpus(const TextFlags& flags);

/// `make` makes the windows that a task will read. Errors: FileError that names the file if it is too short for them.
void expect_length(const TextFlags& flags, const std::function<void()>& make);
/// Errors: Error, which ends with `advice`, if the model to begin with knows other tokens.
void expect_vocabulary(const TextFlags& flags, const Corpus& corpus, const char* advice);

}  // namespace headroom::cli
