#include <headroom/examples/gpt/corpus.hpp>

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/data/text.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/examples/gpt/token_names.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::gpt {

namespace {

Corpus read_text(const GptFlags& flags) {
    const data::TextOptions options{.block = flags.block};
    const auto text = std::make_shared<const data::TextCorpus>(
        flags.bytes ? data::TextCorpus::bytes(flags.data, options) : data::TextCorpus::characters(flags.data, options));
    const data::Vocabulary& vocabulary = text->vocabulary();
    return {
        .split = text->split(),
        .vocabulary = vocabulary.size(),
        .what = fmt::format("{} tokens of {} kinds", text->tokens().size(), vocabulary.size()),
        .description = {{"kind", data::vocabulary_kind_name(vocabulary.kind())},
                        {"code_points", vocabulary.code_points()}},
        .decode =
            [text](std::span<const std::int32_t> tokens) { return data::printable(text->vocabulary().decode(tokens)); },
        .storage = text};
}

/// Errors: FileError that names the file if its part is too short.
void expect_length(const std::string& file, const data::TokenSplit& split, std::int64_t block) {
    try {
        data::TextWindows(split.train, block, data::WindowStart::every_token);
        data::TextWindows(split.validation, block, data::WindowStart::every_block);
    } catch (const Error& error) {
        throw FileError(fmt::format("{}: {}; use more tokens or a shorter --block", file, error.what()));
    }
}

std::function<std::string(std::span<const std::int32_t>)> decoder(const std::string& names) {
    if (names.empty())
        return [](std::span<const std::int32_t> tokens) { return fmt::to_string(fmt::join(tokens, " ")); };
    return [names = TokenNames(names)](std::span<const std::int32_t> tokens) {
        return data::printable(names.decode(tokens));
    };
}

/// train.bin and val.bin of a folder, or one file, whose last tenth is for validation.
Corpus read_tokens(const GptFlags& flags) {
    const data::TokenFormat format = flags.tokens == "u16" ? data::TokenFormat::u16 : data::TokenFormat::u32;
    const auto open = [&](const std::filesystem::path& file) {
        return data::TokenFile(file, format, flags.vocabulary);
    };
    const auto make = [&](const data::TokenSplit& split, std::shared_ptr<const void> storage) {
        expect_length(flags.data, split, flags.block);
        const std::int64_t count = split.train.size() + split.validation.size();
        return Corpus{.split = split,
                      .vocabulary = flags.vocabulary,
                      .what = fmt::format("{} tokens of {} kinds", count, flags.vocabulary),
                      .description = {{"kind", "tokens"}},
                      .decode = decoder(flags.token_names),
                      .storage = std::move(storage)};
    };
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

Corpus read_corpus(const GptFlags& flags) { return flags.tokens.empty() ? read_text(flags) : read_tokens(flags); }

}  // namespace headroom::gpt
