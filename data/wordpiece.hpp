#pragma once
// The tokens of BERT: a text is cleaned and cut into words, a word into the longest pieces that a vocabulary has
// (Devlin and others, 2019: BERT; Wu and others, 2016: Google's Neural Machine Translation System). Ids are those of
// transformers' BertTokenizer for the same vocab.txt. Not for byte-pair encodings, and not for building a vocabulary.
//
//     const auto tokenizer = data::WordPiece::read("bert-base-uncased/vocab.txt");
//     const std::vector<int32_t> ids = tokenizer.encode("Unaffable!");             // una ##ffa ##ble !
//     const data::TokenizedText pair = tokenizer.encode_pair("Is it?", "It is.");  // [CLS] is it ? [SEP] it is . [SEP]
//     const std::string text = tokenizer.decode(pair.ids);
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom::data {

struct WordPieceOptions {
    /// Lower case, for "uncased" models. None: as the tokenizer_config.json beside the vocabulary says
    /// ("do_lower_case"), else unless a piece has a capital letter of ASCII.
    std::optional<bool> lower_case = {};
    /// No accents. None: as tokenizer_config.json says ("strip_accents"), else as `lower_case`.
    std::optional<bool> strip_accents = {};
};

struct TokenizedText {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> types;  // of each token: 0 for the first text, 1 for the second
};

class WordPiece {
  public:
    /// A token per line, whose id is its number from 0 on. Errors: FileError if the file can't be read or has no [PAD],
    /// [UNK], [CLS], [SEP] or [MASK], or if tokenizer_config.json is damaged or leaves Chinese characters together.
    static WordPiece read(const std::filesystem::path& path, WordPieceOptions options = {});
    /// The same, from a list; a token that occurs twice has the later id. Errors: Error.
    explicit WordPiece(std::vector<std::string> tokens, WordPieceOptions options = {});

    /// Adds no special tokens; names of special tokens in the text, such as "[MASK]", are these tokens. A word that
    /// can't be made of pieces, or has more than 100 characters, is [UNK]. Errors: Error with the offset of bytes that
    /// are not UTF-8.
    std::vector<std::int32_t> encode(std::string_view text) const;

    /// [CLS] first [SEP], and second [SEP] unless that is empty; the longer text loses tokens from its end until both
    /// fit into `length`, as with transformers' `truncation=True`. Errors: also Error if `length` has no room for the
    /// special tokens.
    TokenizedText encode_pair(std::string_view first, std::string_view second = {},
                              std::int64_t length = std::numeric_limits<std::int64_t>::max()) const;

    /// Tokens with spaces between words. Errors: Error for an id that is not in the vocabulary.
    std::string decode(std::span<const std::int32_t> ids) const;

    bool lower_case() const { return *options_.lower_case; }
    bool strip_accents() const { return *options_.strip_accents; }
    std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
    std::int32_t pad() const { return special_[0]; }
    std::int32_t unknown() const { return special_[1]; }
    std::int32_t cls() const { return special_[2]; }
    std::int32_t sep() const { return special_[3]; }
    std::int32_t mask() const { return special_[4]; }

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    using Ids = std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>>;

    void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const;
    void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;

    WordPieceOptions options_;
    std::vector<std::string> tokens_;
    Ids beginnings_;     // by their text
    Ids continuations_;  // by their text behind the ##
    std::int32_t special_[5];
};

}  // namespace headroom::data
