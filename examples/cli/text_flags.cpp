#include <headroom/examples/cli/text_flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

namespace {

Check count() { return whole(1, 1 << 20); }
Check none_or_more() { return whole(0, std::int64_t{1} << 40); }

}  // namespace

Option add_text_data(App& app, TextFlags& flags) {
    add_option(app, "--data", flags.data, "text file to train on").required();
    const Option bytes = add_flag(app, "--bytes", flags.bytes, "use the bytes of any file as tokens");
    const Option tokens =
        add_option(
            app, "--tokens", flags.tokens,
            "--data is a file of tokens in this format, or a folder with train.bin and val.bin, as nanoGPT writes them")
            .check(one_of({"u16", "u32"}))
            .excludes(bytes);
    add_option(app, "--token-names", flags.token_names,
               "the tokenizer's vocab.json, as Hugging Face provides it for GPT-2; samples are then printed as text")
        .needs(tokens);
    return tokens;
}

void add_text_sizes(App& app, TextFlags& flags) {
    add_option(app, "--layers", flags.layers, "number of layers").check(whole(1, 10'000)).show_default();
    add_option(app, "--heads", flags.heads, "attention heads; must divide --width").check(count()).show_default();
    add_option(app, "--width", flags.width, "width of the model").check(count()).show_default();
    add_option(app, "--block", flags.block, "length of a sequence in tokens").check(count()).show_default();
    add_option(app, "--positions", flags.positions,
               "positions of the model, if it is meant for longer sequences; 0: as many as --block")
        .check(none_or_more());
    add_option(app, "--dropout", flags.dropout, "dropout probability").check(real(0, 0.99)).show_default();
    add_option(app, "--steps", flags.steps, "optimizer steps").check(none_or_more()).show_default();
}

void add_text_sampling(App& app, TextFlags& flags) {
    add_option(app, "--sample", flags.sample, "tokens of text to print at the end").check(none_or_more());
    add_option(app, "--temperature", flags.temperature, "temperature of sampling; 0: always the likeliest token")
        .check(real(0, 1e30))
        .show_default();
    add_option(app, "--top-k", flags.top_k, "sample from the k likeliest tokens; 0: from all").check(none_or_more());
}

void check_heads(const TextFlags& flags) {
    if (flags.width % flags.heads == 0) return;
    throw WrongUsage(fmt::format("--heads {} does not divide --width {}", flags.heads, flags.width));
}

void check_positions(const TextFlags& flags) {
    if (flags.longest() >= flags.block) return;
    throw WrongUsage(fmt::format("--block {} is longer than the model's {} positions", flags.block, flags.positions));
}

}  // namespace headroom::cli
