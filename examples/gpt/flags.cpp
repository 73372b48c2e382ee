#include <headroom/examples/gpt/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/program/ranges.hpp>
#include <headroom/nn/gpt2_names.hpp>

namespace headroom::gpt {

namespace {

/// The model's sizes from the file that it begins with.
void take_sizes(CLI::App& app, GptFlags& flags) {
    const nn::GptOptions sizes = nn::gpt2_sizes(flags.from);
    text::imply_sizes(app, flags, sizes);
    if (flags.tokens.empty()) {
        flags.vocabulary = sizes.vocabulary;
    } else {
        program::imply(app, "--vocabulary", fmt::to_string(sizes.vocabulary), flags.from);
    }
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
    CLI::Option* const tokens = text::add_data_flags(app, flags);
    app.add_option("--vocabulary", flags.vocabulary, "kinds of --tokens; by default as many as GPT-2 has")
        ->check(program::whole(1, std::int64_t{1} << 31))
        ->needs(tokens);
    text::add_size_flags(app, flags);
    app.add_flag("--half-residual", flags.half_residual, "the stream between blocks is of --dtype, too, not f32");
    text::add_sampling_flags(app, flags);
    program::add_flags(app, flags);
    program::add_from(app, flags.from, "GPT-2 file in Hugging Face's format to begin with; its sizes are the model's");
    app.callback([&] {
        if (!flags.from.empty()) take_sizes(app, flags);
        text::check_heads(flags);
        if (flags.half_residual && !flags.autocast())
            throw CLI::ValidationError("--half-residual needs --dtype bf16 or f16");
        text::check_positions(flags);
    });
}

}  // namespace headroom::gpt
