#include <headroom/data/text.hpp>

#include <utility>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

void check_length(const std::filesystem::path& path, const TokenSplit& parts, const TextOptions& options) {
    if (options.block < 1) throw Error(fmt::format("a block of {} tokens is too short; use 1 or more", options.block));
    const std::int64_t train = parts.train.size(), validation = parts.validation.size();
    if (train > options.block && validation >= 2) return;
    throw FileError(
        fmt::format("{}: {} tokens are too few: {} are for training, where a block of {} needs {}, and {} for "
                    "validation, which needs 2; use a longer text or a shorter block",
                    path.native(), train + validation, train, options.block, options.block + 1, validation));
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
    std::string text = read_file(path);
    try {
        for_each_code_point(text, [](std::uint32_t, std::size_t) {});
    } catch (const Error& error) {
        throw FileError(fmt::format("{}: {}", path.native(), error.what()));
    }
    const std::size_t zero = text.find('\0');
    if (zero != std::string::npos)
        throw FileError(
            fmt::format("{}: not a text, since byte {} is zero; name a text file or use bytes", path.native(), zero));
    return text;
}

TextCorpus::TextCorpus(const std::filesystem::path& path, Vocabulary vocabulary, Storage tokens,
                       const TextOptions& options)
    : vocabulary_(std::move(vocabulary)), tokens_(std::move(tokens)), train_fraction_(options.train_fraction) {
    check_length(path, split(), options);
}

TextCorpus TextCorpus::characters(const std::filesystem::path& path, const TextOptions& options) {
    const std::string text = read_text(path);
    Vocabulary vocabulary = Vocabulary::characters(text);
    std::vector<std::int32_t> tokens = vocabulary.encode(text);
    return TextCorpus(path, std::move(vocabulary), std::move(tokens), options);
}

TextCorpus TextCorpus::bytes(const std::filesystem::path& path, const TextOptions& options) {
    const std::string text = read_file(path);
    return TextCorpus(path, Vocabulary::bytes(), std::vector<std::uint8_t>(text.begin(), text.end()), options);
}

TextCorpus TextCorpus::encoded(const std::filesystem::path& path, const Vocabulary& vocabulary,
                               const TextOptions& options) {
    if (vocabulary.kind() == VocabularyKind::bytes) return bytes(path, options);
    const std::string text = read_text(path);
    std::vector<std::int32_t> tokens;
    try {
        tokens = vocabulary.encode(text);
    } catch (const Error& error) {
        throw FileError(fmt::format("{}: {}", path.native(), error.what()));
    }
    return TextCorpus(path, vocabulary, std::move(tokens), options);
}

TokenView TextCorpus::tokens() const {
    return std::visit([&](const auto& tokens) { return TokenView(std::span(tokens), vocabulary_.size()); }, tokens_);
}

}  // namespace headroom::data
