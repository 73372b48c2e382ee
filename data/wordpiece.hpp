#pragma once
// BERT's tokenizer: cleans a text, splits it into words and each word into the longest pieces in a vocabulary (Devlin
// and others, 2019: BERT; Wu and others, 2016: Google's Neural Machine Translation System). Ids equal those of
// transformers' BertTokenizer for the same vocab.txt. Does not do byte-pair encoding or build vocabularies.
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
    /// Converts to lower case, for "uncased" models. None: "do_lower_case" of the tokenizer_config.json next to the
    /// vocabulary or, without that value, true unless a piece has an ASCII capital letter.
    std::optional<bool> lower_case = {};
    /// Removes accents. None: "strip_accents" of tokenizer_config.json, else as `lower_case`.
    std::optional<bool> strip_accents = {};
};

struct TokenizedText {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> types;  // per token: 0 for the first text, 1 for the second
};

class WordPiece {
  public:
    /// Reads a file with one token per line; its line number, from 0, is its id. Errors: FileError if the file can't be
    /// read or lacks [PAD], [UNK], [CLS], [SEP] or [MASK], or if tokenizer_config.json is damaged or does not split
    /// Chinese characters.
    static WordPiece read(const std::filesystem::path& path, WordPieceOptions options = {});
    /// As above from a list; a duplicate token has the later id. Errors: Error.
    explicit WordPiece(std::vector<std::string> tokens, WordPieceOptions options = {});

    /// Adds no special tokens. Special tokens named in the text, such as "[MASK]", are encoded as such. A word that
    /// can't be split into pieces, or has more than 100 characters, becomes [UNK]. Errors: Error with the offset of
    /// bytes that are not UTF-8.
    std::vector<std::int32_t> encode(std::string_view text) const;

    /// Encodes [CLS] first [SEP], followed by second [SEP] unless `second` is empty. Truncates the longer text at its
    /// end until both fit into `length`, as transformers does with `truncation=True`. Errors: also Error if `length`
    /// has no room for the special tokens.
    TokenizedText encode_pair(std::string_view first, std::string_view second = {},
                              std::int64_t length = std::numeric_limits<std::int64_t>::max()) const;

    /// Joins tokens, with spaces between words. Errors: Error for an id that is not in the vocabulary.
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
    Ids continuations_;  // by their text after the ##
    std::int32_t special_[5];
};

}  // namespace headroom::data
