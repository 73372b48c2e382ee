#include <headroom/data/vocabulary.hpp>

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::uint32_t kLowCodePoints = 256;
constexpr std::uint32_t kAllCodePoints = 0x110000;

void check_code_points(std::span<const std::uint32_t> points) {
    if (points.empty()) throw Error("a vocabulary of characters needs at least one character");
    std::string scratch;
    for (const std::uint32_t point : points) append_utf8(scratch, point);  // throws for what is no character
    if (std::adjacent_find(points.begin(), points.end(), std::greater_equal<>()) != points.end())
        throw Error("the characters of a vocabulary must be ascending and different");
}

}  // namespace

std::string_view vocabulary_kind_name(VocabularyKind kind) {
    return kind == VocabularyKind::bytes ? "bytes" : "characters";
}

VocabularyKind vocabulary_kind(std::string_view name) {
    for (const auto kind : {VocabularyKind::characters, VocabularyKind::bytes})
        if (name == vocabulary_kind_name(kind)) return kind;
    throw Error(fmt::format("there is no vocabulary '{}'; use characters or bytes", name));
}

Vocabulary::Vocabulary(VocabularyKind kind, std::vector<std::uint32_t> code_points)
    : kind_(kind), code_points_(std::move(code_points)) {
    if (kind_ == VocabularyKind::bytes) return;
    low_.assign(kLowCodePoints, -1);
    for (std::size_t i = 0; i < code_points_.size(); ++i) {
        const auto token = static_cast<std::int32_t>(i);
        if (code_points_[i] < kLowCodePoints)
            low_[code_points_[i]] = token;
        else
            high_.emplace(code_points_[i], token);
    }
}

Vocabulary Vocabulary::characters(std::string_view utf8) {
    std::vector<bool> seen(kAllCodePoints);
    for_each_code_point(utf8, [&](std::uint32_t point, std::size_t) { seen[point] = true; });
    std::vector<std::uint32_t> points;
    for (std::uint32_t point = 0; point < kAllCodePoints; ++point)
        if (seen[point]) points.push_back(point);
    check_code_points(points);
    return Vocabulary(VocabularyKind::characters, std::move(points));
}

Vocabulary Vocabulary::bytes() { return Vocabulary(VocabularyKind::bytes, {}); }

Vocabulary Vocabulary::restore(VocabularyKind kind, std::vector<std::uint32_t> code_points) {
    if (kind == VocabularyKind::characters)
        check_code_points(code_points);
    else if (!code_points.empty())
        throw Error(
            fmt::format("a vocabulary of bytes has no list of characters, but {} were given", code_points.size()));
    return Vocabulary(kind, std::move(code_points));
}

std::int32_t Vocabulary::token_of(std::uint32_t code_point) const {
    if (code_point < kLowCodePoints) return low_[code_point];
    const auto found = high_.find(code_point);
    return found == high_.end() ? -1 : found->second;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    if (kind_ == VocabularyKind::bytes) {
        for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
        return tokens;
    }
    for_each_code_point(text, [&](std::uint32_t point, std::size_t offset) {
        const std::int32_t token = token_of(point);
        if (token < 0)
            throw Error(
                fmt::format("character U+{:04X} at byte {} is not among the {} of the vocabulary; leave it "
                            "out, or train with a text that has it",
                            point, offset, size()));
        tokens.push_back(token);
    });
    return tokens;
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
        if (token < 0 || token >= size())
            throw Error(fmt::format("token {} is outside of the vocabulary of {}", token, size()));
        if (kind_ == VocabularyKind::bytes)
            text.push_back(static_cast<char>(token));
        else
            append_utf8(text, code_points_[static_cast<std::size_t>(token)]);
    }
    return text;
}

}  // namespace headroom::data
