#include <headroom/examples/gpt/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/program/ranges.hpp>
#include <headroom/nn/gpt2_names.hpp>

namespace headroom::gpt {

namespace {

/// The model's sizes from the file that it begins with.
void take_sizes(CLI::App& app, GptFlags& flags) {
    const nn::GptOptions sizes = nn::gpt2_sizes(flags.from);
    const auto imply = [&](const char* name, std::int64_t size) {
        program::imply(app, name, fmt::to_string(size), flags.from);
    };
    imply("--layers", sizes.layers);
    imply("--width", sizes.width);
    imply("--positions", sizes.block);
    if (flags.tokens.empty()) {
        flags.vocabulary = sizes.vocabulary;
    } else {
        imply("--vocabulary", sizes.vocabulary);
    }
    if (app.count("--heads") == 0) imply("--heads", sizes.heads);
}

}  // namespace

GptFlags::GptFlags() {
    steps = 2000;
    recomputes = {
        {"none", "nothing", {}},
        {"cheap", "norms and the like", {{"blocks.*", recompute_cheap()}}},
        {"mlp", "the feed-forward part as well", {{"blocks.*", recompute_cheap()}, {"blocks.*.mlp", recompute_all()}}},
        {"blocks", "all but the borders of each block", {{"blocks.*", recompute_all()}}}};
    recompute = "mlp";
}

void add_flags(CLI::App& app, GptFlags& flags) {
    const auto count = program::whole(1, 1 << 20);
    const auto none_or_more = program::whole(0, std::int64_t{1} << 40);
    app.add_option("--data", flags.data, "text file to train on")->required();
    CLI::Option* const bytes = app.add_flag("--bytes", flags.bytes, "tokens are bytes, of any file");
    CLI::Option* const tokens =
        app.add_option(
               "--tokens", flags.tokens,
               "--data is a file of tokens in this format, or a folder with train.bin and val.bin, as nanoGPT's")
            ->check(CLI::IsMember({"u16", "u32"}))
            ->excludes(bytes);
    app.add_option("--token-names", flags.token_names,
                   "vocab.json of the tokenizer, as Hugging Face has it for GPT-2: samples are text then")
        ->needs(tokens);
    app.add_option("--vocabulary", flags.vocabulary, "kinds of --tokens; by default as many as GPT-2 has")
        ->check(program::whole(1, std::int64_t{1} << 31))
        ->needs(tokens);
    app.add_option("--layers", flags.layers, "number of blocks")
        ->check(program::whole(1, 10'000))
        ->capture_default_str();
    app.add_option("--heads", flags.heads, "attention heads; divide the width")->check(count)->capture_default_str();
    app.add_option("--width", flags.width, "width of the model")->check(count)->capture_default_str();
    app.add_option("--block", flags.block, "length of a sequence in tokens")->check(count)->capture_default_str();
    app.add_option("--positions", flags.positions, "of the model, if it is for longer sequences; 0: as --block")
        ->check(none_or_more);
    app.add_option("--dropout", flags.dropout, "probability")->check(program::real(0, 0.99))->capture_default_str();
    app.add_flag("--half-residual", flags.half_residual, "the stream between blocks is of --dtype, too, not f32");
    app.add_option("--steps", flags.steps, "optimizer steps")->check(none_or_more)->capture_default_str();
    app.add_option("--sample", flags.sample, "tokens of text to print at the end")->check(none_or_more);
    app.add_option("--temperature", flags.temperature, "of sampling; 0: the likeliest")
        ->check(program::real(0, 1e30))
        ->capture_default_str();
    app.add_option("--top-k", flags.top_k, "sample from the k likeliest; 0: from all")->check(none_or_more);
    program::add_flags(app, flags);
    app.add_option("--from", flags.from, "GPT-2 file in Hugging Face's format to begin with; its sizes are the model's")
        ->configurable(false)
        ->excludes("--resume");
    app.callback([&] {
        if (!flags.from.empty()) take_sizes(app, flags);
        if (flags.width % flags.heads != 0)
            throw CLI::ValidationError(fmt::format("--heads {} does not divide --width {}", flags.heads, flags.width));
        if (flags.half_residual && !flags.autocast())
            throw CLI::ValidationError("--half-residual needs --dtype bf16 or f16");
        if (flags.positions > 0 && flags.positions < flags.block)
            throw CLI::ValidationError(
                fmt::format("--block {} is longer than the model's {} positions", flags.block, flags.positions));
    });
}

}  // namespace headroom::gpt
