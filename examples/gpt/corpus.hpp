#pragma once
// What a GPT is trained on: a text, the bytes of any file, or tokens that another program made of a text.
//
//     const gpt::Corpus corpus = gpt::read_corpus(flags);
//     data::TextWindows windows(corpus.split.train, flags.block, data::WindowStart::every_token);
//     fmt::print("{}", corpus.decode(tokens));
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include <headroom/data/tokens.hpp>
#include <headroom/examples/gpt/flags.hpp>

namespace headroom::gpt {

struct Corpus {
    data::TokenSplit split;
    std::int64_t vocabulary = 0;
    std::string what;            ///< for people: "1115394 tokens of 65 kinds"
    nlohmann::json description;  ///< the vocabulary's, for checkpoints
    /// Text that is safe to print; numbers where nothing says what tokens stand for.
    std::function<std::string(std::span<const std::int32_t>)> decode;
    std::shared_ptr<const void> storage;  ///< of the tokens
};

/// Errors: FileError, also for a file too short for the flags' block.
Corpus read_corpus(const GptFlags& flags);

}  // namespace headroom::gpt
