#include <headroom/data/wordpiece.hpp>

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/data/internal/unicode_tables.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::array<std::string_view, 5> special_names = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::string_view continues = "##";
constexpr std::size_t longest_word = 100;  // characters
constexpr uint32_t first_syllable = 0xac00, last_syllable = 0xd7a3;

/// The last row that begins at `point` or before.
template <class Row>
const Row* row_of(std::span<const Row> rows, uint32_t point) {
    const auto after = std::upper_bound(rows.begin(), rows.end(), point,
                                        [](uint32_t value, const Row& row) { return value < row.first; });
    return after == rows.begin() ? nullptr : &*(after - 1);
}

bool is_in(std::span<const CodePointRange> ranges, uint32_t point) {
    const CodePointRange* range = row_of(ranges, point);
    return range && point <= range->last;
}

/// Calls `use` for each code point of the character in lower case without accents.
template <class Use>
void for_each_plain(uint32_t point, Use use) {
    if (point < 0x80) return use(point >= 'A' && point <= 'Z' ? point + 'a' - 'A' : point);
    if (is_in(mark_ranges, point)) return;
    if (point >= first_syllable && point <= last_syllable) {  // Unicode 3.12: conjoining jamo
        const uint32_t number = point - first_syllable;
        use(0x1100 + number / 588);
        use(0x1161 + number % 588 / 28);
        if (number % 28 != 0) use(0x11a7 + number % 28);
        return;
    }
    const CodePointMapping* mapping = row_of(plain_mappings, point);
    if (mapping && point <= mapping->last && (point - mapping->first) % mapping->stride == 0)
        return use(mapping->to + (point - mapping->first));
    const CodePointExpansion* expansion = row_of(plain_expansions, point);
    if (!expansion || expansion->first != point) return use(point);
    for (const uint32_t part : expansion->to)
        if (part != 0) use(part);
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
        if (!is_in(punctuation_ranges, point)) return append_utf8(word, point);
        end_word();
        append_utf8(word, point);
        end_word();
    };
    for_each_code_point(text, [&](uint32_t point, std::size_t) {
        if (is_in(removed_ranges, point)) return;
        if (is_in(space_ranges, point)) return end_word();
        const bool alone = is_in(ideograph_ranges, point);
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
