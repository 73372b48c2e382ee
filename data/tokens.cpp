#include <headroom/data/tokens.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <headroom/data/internal/token_header.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are: little-endian");

// Calls `use` with the tokens as a pointer of their own type.
template <class Use>
auto with_type(const void* data, TokenFormat format, Use use) {
    switch (format) {
        case TokenFormat::u8:
            return use(static_cast<const std::uint8_t*>(data));
        case TokenFormat::u16:
            return use(static_cast<const std::uint16_t*>(data));
        case TokenFormat::u32:
            return use(static_cast<const std::uint32_t*>(data));
        case TokenFormat::i32:
            break;
    }
    return use(static_cast<const std::int32_t*>(data));
}

TokenView map_tokens(const MappedFile& file, const std::filesystem::path& path, TokenFormat format,
                     std::int64_t vocabulary_size) {
    const std::span<const std::byte> bytes = token_numbers(file.bytes(), path, format);
    const auto width = static_cast<std::size_t>(token_bytes(format));
    if (bytes.size() % width != 0)
        throw FileError(fmt::format("{}: {} bytes are not a whole number of {}-byte tokens; check the format",
                                    path.native(), bytes.size(), width));
    return with_type(bytes.data(), format, [&](const auto* tokens) {
        return TokenView(std::span(tokens, bytes.size() / width), vocabulary_size);
    });
}

}  // namespace

std::int64_t token_bytes(TokenFormat format) {
    return with_type(nullptr, format, [](const auto* tokens) { return static_cast<std::int64_t>(sizeof(*tokens)); });
}

TokenView::TokenView(const void* data, TokenFormat format, std::int64_t size, std::int64_t vocabulary_size)
    : data_(data), format_(format), size_(size), vocabulary_size_(vocabulary_size) {
    if (vocabulary_size < 1 || vocabulary_size > std::int64_t{1} << 31)
        throw Error(fmt::format("a vocabulary of {} tokens is outside of 1 to 2^31", vocabulary_size));
}

TokenView::TokenView(std::span<const std::uint8_t> tokens, std::int64_t vocabulary_size)
    : TokenView(tokens.data(), TokenFormat::u8, static_cast<std::int64_t>(tokens.size()), vocabulary_size) {}
TokenView::TokenView(std::span<const std::uint16_t> tokens, std::int64_t vocabulary_size)
    : TokenView(tokens.data(), TokenFormat::u16, static_cast<std::int64_t>(tokens.size()), vocabulary_size) {}
TokenView::TokenView(std::span<const std::uint32_t> tokens, std::int64_t vocabulary_size)
    : TokenView(tokens.data(), TokenFormat::u32, static_cast<std::int64_t>(tokens.size()), vocabulary_size) {}
TokenView::TokenView(std::span<const std::int32_t> tokens, std::int64_t vocabulary_size)
    : TokenView(tokens.data(), TokenFormat::i32, static_cast<std::int64_t>(tokens.size()), vocabulary_size) {}

void TokenView::check_range(const char* what, std::int64_t first, std::int64_t count) const {
    if (first < 0 || count < 0 || first > size_ || count > size_ - first)
        throw ShapeError(
            fmt::format("{}: {} tokens from position {} exceed the {} available", what, count, first, size_));
}

void TokenView::copy(std::int64_t first, std::span<std::int32_t> out) const {
    check_range("copy of tokens", first, static_cast<std::int64_t>(out.size()));
    // As unsigned, a negative token is too large as well.
    const std::uint32_t largest = with_type(data_, format_, [&](const auto* tokens) {
        std::uint32_t seen = 0;
        for (std::size_t i = 0; i < out.size(); ++i) {
            const auto token = static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(first) + i]);
            out[i] = static_cast<std::int32_t>(token);
            seen = std::max(seen, token);
        }
        return seen;
    });
    if (!out.empty() && largest >= vocabulary_size_) {
        const std::int64_t bad = first + slice(first, static_cast<std::int64_t>(out.size())).find_invalid();
        throw Error(
            fmt::format("token {} at position {} is outside of the vocabulary of {}", at(bad), bad, vocabulary_size_));
    }
}

TokenView TokenView::slice(std::int64_t first, std::int64_t count) const {
    check_range("slice of tokens", first, count);
    return with_type(data_, format_, [&](const auto* tokens) {
        return TokenView(std::span(tokens + first, static_cast<std::size_t>(count)), vocabulary_size_);
    });
}

std::int64_t TokenView::find_invalid() const {
    return with_type(data_, format_, [&](const auto* tokens) -> std::int64_t {
        const auto* end = tokens + size_;
        const auto* found = std::find_if(tokens, end, [&](auto token) {
            return static_cast<std::uint32_t>(token) >= std::uint64_t(vocabulary_size_);
        });
        return found == end ? -1 : found - tokens;
    });
}

std::int64_t TokenView::at(std::int64_t index) const {
    check_range("token", index, 1);
    return with_type(data_, format_, [&](const auto* tokens) { return static_cast<std::int64_t>(tokens[index]); });
}

TokenSplit split_tokens(TokenView tokens, double fraction) {
    if (!(fraction >= 0 && fraction <= 1))
        throw Error(fmt::format("split_tokens: the fraction {} is outside of 0 to 1", fraction));
    const auto cut = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens.size()) * fraction));
    return {tokens.slice(0, cut), tokens.slice(cut, tokens.size() - cut)};
}

TokenFile::TokenFile(const std::filesystem::path& path, TokenFormat format, std::int64_t vocabulary_size,
                     TokenCheck check)
    : file_(path), view_(map_tokens(file_, path, format, vocabulary_size)) {
    if (check == TokenCheck::at_reading) return;
    const std::int64_t bad = view_.find_invalid();
    if (bad >= 0)
        throw FileError(
            fmt::format("{}: token {} at position {} is outside of the vocabulary of {}; check the "
                        "format and the tokenizer",
                        path.native(), view_.at(bad), bad, vocabulary_size));
}

}  // namespace headroom::data
