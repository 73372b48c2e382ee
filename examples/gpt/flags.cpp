#include <headroom/examples/gpt/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/program/ranges.hpp>

namespace headroom::gpt {

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
    app.add_flag("--bytes", flags.bytes, "tokens are bytes, of any file");
    app.add_option("--layers", flags.layers, "number of blocks")
        ->check(program::whole(1, 10'000))
        ->capture_default_str();
    app.add_option("--heads", flags.heads, "attention heads; divide the width")->check(count)->capture_default_str();
    app.add_option("--width", flags.width, "width of the model")->check(count)->capture_default_str();
    app.add_option("--block", flags.block, "length of a sequence in tokens")->check(count)->capture_default_str();
    app.add_option("--dropout", flags.dropout, "probability")->check(program::real(0, 0.99))->capture_default_str();
    app.add_option("--steps", flags.steps, "optimizer steps")->check(none_or_more)->capture_default_str();
    app.add_option("--sample", flags.sample, "tokens of text to print at the end")->check(none_or_more);
    app.add_option("--temperature", flags.temperature, "of sampling; 0: the likeliest")
        ->check(program::real(0, 1e30))
        ->capture_default_str();
    app.add_option("--top-k", flags.top_k, "sample from the k likeliest; 0: from all")->check(none_or_more);
    program::add_flags(app, flags);
    app.callback([&flags] {
        if (flags.width % flags.heads == 0) return;
        throw CLI::ValidationError(fmt::format("--heads {} does not divide --width {}", flags.heads, flags.width));
    });
}

}  // namespace headroom::gpt
