#include <headroom/data/wordpiece.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <utf8proc.h>
#include <headroom/data/file.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::array<std::string_view, 5> special_names = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::string_view continues = "##";
constexpr std::size_t longest_word = 100;  // characters

// A character's Unicode category decides what becomes of it, as in transformers' BertTokenizer. That one has the
// categories of Unicode 8 and the letters of 17, utf8proc all of one release, 15 in Debian 12. They differ for
// characters that Unicode got between these, and for U+166D, U+1734 and U+111C9, whose category has changed.

/// Whether its category is one of these, which the standard lists in a row.
bool is_in(uint32_t point, utf8proc_category_t first, utf8proc_category_t last) {
    const utf8proc_category_t category = utf8proc_category(static_cast<int32_t>(point));
    return first <= category && category <= last;
}

bool is_space(uint32_t point) {
    return point == '\t' || point == '\n' || point == '\r' || is_in(point, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

/// Control characters and those of private use, where it is no space.
bool is_removed(uint32_t point) { return point == 0xfffd || is_in(point, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO); }

/// A word of its own: a Chinese character, by the blocks that BERT names.
bool is_ideograph(uint32_t point) {
    constexpr std::pair<uint32_t, uint32_t> blocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                                        {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                                        {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return std::any_of(std::begin(blocks), std::end(blocks),
                       [&](const auto& block) { return block.first <= point && point <= block.second; });
}

/// A word of its own: Unicode's punctuation, and all signs of ASCII, "$" and "^" among them.
bool is_punctuation(uint32_t point) {
    if (point < 0x80) return std::ispunct(static_cast<int>(point)) != 0;
    return is_in(point, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

/// Calls `use` for each code point of the character in lower case without accents.
template <class Use>
void for_each_plain(uint32_t point, Use use) {
    std::array<utf8proc_int32_t, 8> parts;  // no character has more than four
    const auto count =
        utf8proc_decompose_char(static_cast<int32_t>(point), parts.data(), parts.size(), UTF8PROC_DECOMPOSE, nullptr);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN) use(static_cast<uint32_t>(utf8proc_tolower(parts[i])));
    }
}

/// The special token that begins `text`, or none.
std::optional<std::size_t> special_at(std::string_view text) {
    for (std::size_t i = 0; i < special_names.size(); ++i)
        if (text.starts_with(special_names[i])) return i;
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
        return WordPiece(lines_of(read_file(path)), options);
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
        const auto id = static_cast<int32_t>(i);
        beginnings_.insert_or_assign(tokens_[i], id);
        if (token.starts_with(continues))
            continuations_.insert_or_assign(std::string(token.substr(continues.size())), id);
    }
    for (std::size_t i = 0; i < special_names.size(); ++i) {
        const auto found = beginnings_.find(special_names[i]);
        if (found == beginnings_.end())
            throw Error(fmt::format("has no token {} among its {}; a vocab.txt of BERT has one per line",
                                    special_names[i], tokens_.size()));
        special_[i] = found->second;
    }
}

void WordPiece::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    const auto characters = std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xc0) != 0x80; });
    const std::size_t before = ids.size();
    bool known = static_cast<std::size_t>(characters) <= longest_word;
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

void WordPiece::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    std::string word;
    const auto end_word = [&] {
        if (!word.empty()) encode_word(word, ids);
        word.clear();
    };
    const auto add = [&](uint32_t point) {
        if (!is_punctuation(point)) return append_utf8(word, point);
        end_word();
        append_utf8(word, point);
        end_word();
    };
    for_each_code_point(text, [&](uint32_t point, std::size_t) {
        if (is_space(point)) return end_word();
        if (is_removed(point)) return;
        const bool alone = is_ideograph(point);
        if (alone) end_word();
        if (options_.lower_case)
            for_each_plain(point, add);
        else
            add(point);
        if (alone) end_word();
    });
    end_word();
}

std::vector<int32_t> WordPiece::encode(std::string_view text) const {
    std::vector<int32_t> ids;
    std::size_t begin = 0;
    for (std::size_t at = text.find('['); at < text.size(); at = text.find('[', at)) {
        const auto special = special_at(text.substr(at));
        if (!special) {
            ++at;
            continue;
        }
        encode_plain(text.substr(begin, at - begin), ids);
        ids.push_back(special_[*special]);
        begin = at += special_names[*special].size();
    }
    encode_plain(text.substr(begin), ids);
    return ids;
}

TokenizedText WordPiece::encode_pair(std::string_view first, std::string_view second, int64_t length) const {
    std::vector<int32_t> a = encode(first), b = encode(second);
    const int64_t specials = second.empty() ? 2 : 3;
    if (length < specials)
        throw Error(fmt::format("{} tokens have no room for {} special ones and a text", length, specials));
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

std::string WordPiece::decode(std::span<const int32_t> ids) const {
    std::string text;
    for (const int32_t id : ids) {
        if (id < 0 || id >= size()) throw Error(fmt::format("token {} is outside of the vocabulary of {}", id, size()));
        std::string_view token = tokens_[static_cast<std::size_t>(id)];
        if (token.starts_with(continues) && !text.empty())
            token.remove_prefix(continues.size());
        else if (!text.empty())
            text.push_back(' ');
        text += token;
    }
    return text;
}

}  // namespace headroom::data
