#pragma once
// Maps text to token numbers and back: the characters that occur in a text, or the 256 bytes. To save it, store its
// kind and its list of code points. Not for subwords (BPE): encode with such a tokenizer first and read a token file.
//
//     data::Vocabulary vocabulary = data::Vocabulary::characters(text);
//     std::vector<int32_t> tokens = vocabulary.encode("To be");
//     std::string back = vocabulary.decode(tokens);
//     auto restored = data::Vocabulary::restore(vocabulary.kind(), vocabulary.code_points());
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom::data {

enum class VocabularyKind { characters, bytes };

/// "characters" or "bytes", for files.
std::string_view vocabulary_kind_name(VocabularyKind kind);
/// Errors: Error for any other name.
VocabularyKind vocabulary_kind(std::string_view name);

class Vocabulary {
  public:
    /// The characters (code points) that occur in `utf8`, in ascending order: token i is the i-th smallest. Errors:
    /// Error if the text is empty or not UTF-8.
    static Vocabulary characters(std::string_view utf8);
    /// 256 tokens: token i is byte i.
    static Vocabulary bytes();
    /// A saved vocabulary. Errors: Error unless `code_points` are ascending and valid for characters, or empty for
    /// bytes.
    static Vocabulary restore(VocabularyKind kind, std::vector<std::uint32_t> code_points);

    VocabularyKind kind() const { return kind_; }
    std::int64_t size() const {
        return kind_ == VocabularyKind::bytes ? 256 : static_cast<std::int64_t>(code_points_.size());
    }
    /// The code point of each token, ascending; empty for bytes.
    const std::vector<std::uint32_t>& code_points() const { return code_points_; }

    /// One token per character or byte. Errors: Error with the offset of a character that is not in the vocabulary or
    /// not UTF-8.
    std::vector<std::int32_t> encode(std::string_view text) const;
    /// The inverse of `encode`. Decoded bytes may not be valid UTF-8: use `printable` in utf8.hpp to show them. Errors:
    /// Error for a token that is not in the vocabulary.
    std::string decode(std::span<const std::int32_t> tokens) const;

    bool operator==(const Vocabulary& other) const = default;

  private:
    Vocabulary(VocabularyKind kind, std::vector<std::uint32_t> code_points);

    std::int32_t token_of(std::uint32_t code_point) const;

    VocabularyKind kind_;
    std::vector<std::uint32_t> code_points_;
    std::vector<std::int32_t> low_;                         // token of a code point below 256, or -1
    std::unordered_map<std::uint32_t, std::int32_t> high_;  // tokens of the other code points
};

}  // namespace headroom::data
