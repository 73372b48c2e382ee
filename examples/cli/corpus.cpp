#include <headroom/examples/cli/corpus.hpp>

#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/data/text.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/data/wordpiece.hpp>
#include <headroom/examples/cli/token_names.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::cli {

namespace {

using Decode = std::function<std::string(std::span<const std::int32_t>)>;

std::string what(std::int64_t tokens, std::int64_t kinds) {
    return fmt::format("{} tokens of {} kinds", tokens, kinds);
}

Corpus read_text(const TextFlags& flags) {
    const data::TextOptions options{.block = flags.block};
    const auto text = std::make_shared<const data::TextCorpus>(
        flags.bytes ? data::TextCorpus::bytes(flags.data, options) : data::TextCorpus::characters(flags.data, options));
    const data::Vocabulary& vocabulary = text->vocabulary();
    return {.split = text->split(),
            .vocabulary = vocabulary.size(),
            .what = what(text->tokens().size(), vocabulary.size()),
            .description = {{"kind", data::vocabulary_kind_name(vocabulary.kind())},
                            {"code_points", vocabulary.code_points()}},
            .decode =
                [text](std::span<const std::int32_t> tokens) {
                    std::string decoded;
                    for (const std::int32_t& token : tokens)
                        decoded += token < text->vocabulary().size() ? text->vocabulary().decode({&token, 1}) : "_";
                    return data::printable(decoded);
                },
            .storage = text};
}

Decode decoder(const TextFlags& flags, const std::shared_ptr<const data::WordPiece>& pieces) {
    if (pieces)
        return [pieces](std::span<const std::int32_t> tokens) { return data::printable(pieces->decode(tokens)); };
    if (flags.token_names.empty())
        return [](std::span<const std::int32_t> tokens) { return fmt::to_string(fmt::join(tokens, " ")); };
    return [names = TokenNames(flags.token_names)](std::span<const std::int32_t> tokens) {
        return data::printable(names.decode(tokens));
    };
}

/// The vocabulary of WordPiece. Notes what becomes of letters, unless the flags say it.
std::shared_ptr<const data::WordPiece> read_pieces(const TextFlags& flags) {
    if (flags.pieces.empty()) return nullptr;
    data::WordPieceOptions options;
    if (!flags.letter_case.empty()) options.lower_case = flags.letter_case == "lower";
    const auto pieces = std::make_shared<const data::WordPiece>(data::WordPiece::read(flags.pieces, options));
    if (flags.letter_case.empty() && flags.tokens.empty())
        flags.note(fmt::format("{}: the text {}; --case changes that", flags.pieces,
                               pieces->lower_case() ? "is read in lower case" : "keeps its capital letters"));
    return pieces;
}

/// A text cut into pieces.
std::shared_ptr<const std::vector<std::int32_t>> encode(const TextFlags& flags, const data::WordPiece& pieces) {
    return std::make_shared<const std::vector<std::int32_t>>(pieces.encode(data::read_text(flags.data)));
}

/// Tokens of a file or, without --tokens, of a text: of that file's train.bin and val.bin if it is a folder; else the
/// last tenth is for validation.
Corpus read_tokens(const TextFlags& flags) {
    const auto pieces = read_pieces(flags);
    const std::int64_t kinds = pieces ? pieces->size() : flags.vocabulary;
    const data::TokenFormat format = flags.tokens == "u16" ? data::TokenFormat::u16 : data::TokenFormat::u32;
    const auto open = [&](const std::filesystem::path& file) { return data::TokenFile(file, format, kinds); };
    const auto make = [&](const data::TokenSplit& split, std::shared_ptr<const void> storage) {
        Corpus corpus{.split = split,
                      .vocabulary = kinds,
                      .what = what(split.train.size() + split.validation.size(), kinds),
                      .description = {{"kind", pieces ? "pieces" : "tokens"}},
                      .decode = decoder(flags, pieces),
                      .storage = std::move(storage)};
        if (pieces) {
            if (!pieces->lower_case()) corpus.description["case"] = "keep";
            corpus.special = data::SpecialTokens{pieces->cls(), pieces->sep(), pieces->mask()};
            corpus.padding = pieces->pad();
        }
        return corpus;
    };
    if (flags.tokens.empty()) {
        const auto tokens = encode(flags, *pieces);
        return make(data::split_tokens({std::span(*tokens), kinds}), tokens);
    }
    const std::filesystem::path path = flags.data;
    if (!std::filesystem::is_directory(path)) {
        const auto file = std::make_shared<const data::TokenFile>(open(path));
        return make(data::split_tokens(file->view()), file);
    }
    using Files = std::pair<data::TokenFile, data::TokenFile>;
    const auto files = std::make_shared<const Files>(Files{open(path / "train.bin"), open(path / "val.bin")});
    return make({files->first.view(), files->second.view()}, files);
}

}  // namespace

Corpus read_corpus(const TextFlags& flags) {
    return flags.tokens.empty() && flags.pieces.empty() ? read_text(flags) : read_tokens(flags);
}

Corpus read_special_corpus(const TextFlags& flags) {
    Corpus corpus = read_corpus(flags);
    if (corpus.special) return corpus;
    const auto first = static_cast<std::int32_t>(corpus.vocabulary);
    corpus.special = data::SpecialTokens{first, first + 1, first + 2};
    corpus.vocabulary += 3;
    corpus.split = {corpus.split.train.within(corpus.vocabulary), corpus.split.validation.within(corpus.vocabulary)};
    return corpus;
}

void expect_length(const TextFlags& flags, const std::function<void()>& make) {
    try {
        make();
    } catch (const Error& error) {
        throw FileError(fmt::format("{}: {}; use more text or a shorter --block", flags.data, error.what()));
    }
}

void expect_vocabulary(const TextFlags& flags, const Corpus& corpus, const char* advice) {
    if (flags.from.empty() || corpus.vocabulary == flags.vocabulary) return;
    throw Error(fmt::format("--from {}: it knows {} kinds of tokens, but {} has {}; {}", flags.from, flags.vocabulary,
                            flags.data, corpus.vocabulary, advice));
}

}  // namespace headroom::cli
