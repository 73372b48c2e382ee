#pragma once
// What the tokens of a byte-level tokenizer stand for, from the vocab.json that Hugging Face has beside each model of
// GPT-2's kind. Turns tokens into text, not text into tokens: that takes the tokenizer's merges as well.
//
//     const cli::TokenNames names("gpt2/vocab.json");
//     names.decode({{15496, 995}});  // "Hello world"
//
// Source: https://github.com/openai/gpt-2, src/encoder.py, `bytes_to_unicode`.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace headroom::cli {

class TokenNames {
  public:
    /// Errors: FileError if it is no such file.
    explicit TokenNames(const std::filesystem::path& path);
    /// The bytes, which need not be UTF-8; a token that the file does not have gives U+FFFD.
    std::string decode(std::span<const std::int32_t> tokens) const;

  private:
    std::vector<std::string> bytes_;  ///< of each token
};

}  // namespace headroom::cli
