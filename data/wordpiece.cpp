#include <headroom/data/wordpiece.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utf8proc.h>
#include <headroom/data/file.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::array<std::string_view, 5> kSpecialNames = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::string_view kContinues = "##";
constexpr std::size_t kLongestWord = 100;  // characters

// A character's Unicode category decides what becomes of it, as in transformers' BertTokenizer. That one has the
// categories of Unicode 8 and the letters of 17, utf8proc all of one release, 15 in Debian 12. They differ for
// characters that Unicode got between these, and for U+166D, U+1734 and U+111C9, whose category has changed.

/// Whether its category is one of these, which the standard lists in a row.
bool is_in(std::uint32_t point, utf8proc_category_t first, utf8proc_category_t last) {
    const utf8proc_category_t category = utf8proc_category(static_cast<std::int32_t>(point));
    return first <= category && category <= last;
}

bool is_space(std::uint32_t point) {
    return point == '\t' || point == '\n' || point == '\r' || is_in(point, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

/// Control characters and those of private use, where it is no space.
bool is_removed(std::uint32_t point) {
    return point == 0xfffd || is_in(point, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

/// A word of its own: a Chinese character, by the blocks that BERT names.
bool is_ideograph(std::uint32_t point) {
    constexpr std::pair<std::uint32_t, std::uint32_t> blocks[] = {
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return std::any_of(std::begin(blocks), std::end(blocks),
                       [&](const auto& block) { return block.first <= point && point <= block.second; });
}

/// A word of its own: Unicode's punctuation, and all signs of ASCII, "$" and "^" among them.
bool is_punctuation(std::uint32_t point) {
    if (point < 0x80) return std::ispunct(static_cast<int>(point)) != 0;
    return is_in(point, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

/// Calls `use` for each code point of the character without accents.
template <class Use>
void for_each_part(std::uint32_t point, Use use) {
    std::array<utf8proc_int32_t, 8> parts;  // no character has more than four
    const auto count = utf8proc_decompose_char(static_cast<std::int32_t>(point), parts.data(), parts.size(),
                                               UTF8PROC_DECOMPOSE, nullptr);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN) use(static_cast<std::uint32_t>(parts[i]));
    }
}

bool has_capital(std::string_view token) {
    return !token.starts_with('[') && std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// What options leave open, from the file beside the vocabulary. Errors: FileError.
WordPieceOptions complete(WordPieceOptions options, const std::filesystem::path& vocabulary) {
    const std::filesystem::path path = vocabulary.parent_path() / "tokenizer_config.json";
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return options;
    const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path.native(), what)); };
    const auto config = nlohmann::json::parse(read_file(path), nullptr, false);
    if (!config.is_object()) fail("a tokenizer's configuration must be a JSON object");
    const auto said = [&](const char* name) -> std::optional<bool> {
        const auto found = config.find(name);
        if (found == config.end() || found->is_null()) return std::nullopt;
        if (!found->is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", name));
        return found->get<bool>();
    };
    if (!said("tokenize_chinese_chars").value_or(true))
        fail("\"tokenize_chinese_chars\" is false, but here each Chinese character is a word");
    if (!options.lower_case) options.lower_case = said("do_lower_case");
    if (!options.strip_accents) options.strip_accents = said("strip_accents");
    return options;
}

/// The special token that begins `text`, or none.
std::optional<std::size_t> special_at(std::string_view text) {
    for (std::size_t i = 0; i < kSpecialNames.size(); ++i)
        if (text.starts_with(kSpecialNames[i])) return i;
    return std::nullopt;
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        while (line.ends_with('\r') || line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
        lines.emplace_back(line);
        at = end + 1;
    }
    return lines;
}

}  // namespace

WordPiece WordPiece::read(const std::filesystem::path& path, WordPieceOptions options) {
    try {
        return WordPiece(lines_of(read_file(path)), complete(options, path));
    } catch (const FileError&) {
        throw;
    } catch (const Error& error) {
        throw FileError(fmt::format("{}: {}", path.native(), error.what()));
    }
}

WordPiece::WordPiece(std::vector<std::string> tokens, WordPieceOptions options)
    : options_(options), tokens_(std::move(tokens)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        const std::string_view token = tokens_[i];
        const auto id = static_cast<std::int32_t>(i);
        beginnings_.insert_or_assign(tokens_[i], id);
        if (token.starts_with(kContinues))
            continuations_.insert_or_assign(std::string(token.substr(kContinues.size())), id);
    }
    if (!options_.lower_case) options_.lower_case = std::ranges::none_of(tokens_, has_capital);
    if (!options_.strip_accents) options_.strip_accents = options_.lower_case;
    for (std::size_t i = 0; i < kSpecialNames.size(); ++i) {
        const auto found = beginnings_.find(kSpecialNames[i]);
        if (found == beginnings_.end())
            throw Error(fmt::format("has no token {} among its {}; a vocab.txt of BERT has one per line",
                                    kSpecialNames[i], tokens_.size()));
        special_[i] = found->second;
    }
}

void WordPiece::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
    const auto characters = std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xc0) != 0x80; });
    const std::size_t before = ids.size();
    bool known = static_cast<std::size_t>(characters) <= kLongestWord;
    for (std::size_t at = 0; known && at < word.size();) {
        const Ids& pieces = at == 0 ? beginnings_ : continuations_;
        std::size_t length = word.size() - at;
        auto found = pieces.find(word.substr(at, length));
        while (found == pieces.end() && length > 1) found = pieces.find(word.substr(at, --length));
        known = found != pieces.end();
        if (known) ids.push_back(found->second);
        at += length;
    }
    if (known) return;
    ids.resize(before);
    ids.push_back(unknown());
}

void WordPiece::encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
    std::string word;
    const auto end_word = [&] {
        if (!word.empty()) encode_word(word, ids);
        word.clear();
    };
    const auto add = [&](std::uint32_t point) {
        if (lower_case()) point = static_cast<std::uint32_t>(utf8proc_tolower(static_cast<std::int32_t>(point)));
        if (!is_punctuation(point)) return append_utf8(word, point);
        end_word();
        append_utf8(word, point);
        end_word();
    };
    for_each_code_point(text, [&](std::uint32_t point, std::size_t) {
        if (is_space(point)) return end_word();
        if (is_removed(point)) return;
        const bool alone = is_ideograph(point);
        if (alone) end_word();
        if (strip_accents())
            for_each_part(point, add);
        else
            add(point);
        if (alone) end_word();
    });
    end_word();
}

std::vector<std::int32_t> WordPiece::encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    std::size_t begin = 0;
    for (std::size_t at = text.find('['); at < text.size(); at = text.find('[', at)) {
        const auto special = special_at(text.substr(at));
        if (!special) {
            ++at;
            continue;
        }
        encode_plain(text.substr(begin, at - begin), ids);
        ids.push_back(special_[*special]);
        begin = at += kSpecialNames[*special].size();
    }
    encode_plain(text.substr(begin), ids);
    return ids;
}

TokenizedText WordPiece::encode_pair(std::string_view first, std::string_view second, std::int64_t length) const {
    std::vector<std::int32_t> a = encode(first), b = encode(second);
    const std::int64_t specials = second.empty() ? 2 : 3;
    if (length < specials)
        throw Error(fmt::format("{} tokens leave no room for {} special ones and a text", length, specials));
    const auto room = static_cast<std::size_t>(length - specials);
    if (a.size() + b.size() > room) {
        const std::size_t less = std::min(a.size(), b.size());
        const bool second_is_longer = b.size() >= a.size();
        // The shorter stays whole while the longer has as many tokens; then both have a half.
        const std::size_t shorter = 2 * less <= room ? less : room / 2;
        a.resize(second_is_longer ? shorter : room - shorter);
        b.resize(second_is_longer ? room - shorter : shorter);
    }
    TokenizedText out;
    out.ids.push_back(cls());
    out.ids.insert(out.ids.end(), a.begin(), a.end());
    out.ids.push_back(sep());
    out.types.assign(out.ids.size(), 0);
    if (second.empty()) return out;
    out.ids.insert(out.ids.end(), b.begin(), b.end());
    out.ids.push_back(sep());
    out.types.resize(out.ids.size(), 1);
    return out;
}

std::string WordPiece::decode(std::span<const std::int32_t> ids) const {
    std::string text;
    for (const std::int32_t id : ids) {
        if (id < 0 || id >= size()) throw Error(fmt::format("token {} is outside of the vocabulary of {}", id, size()));
        std::string_view token = tokens_[static_cast<std::size_t>(id)];
        if (token.starts_with(kContinues) && !text.empty())
            token.remove_prefix(kContinues.size());
        else if (!text.empty())
            text.push_back(' ');
        text += token;
    }
    return text;
}

}  // namespace headroom::data
