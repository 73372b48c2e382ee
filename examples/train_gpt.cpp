// Trains a GPT on a text file within the memory that there is, and says beforehand how much that will be. From top to
// bottom: the options, the data with the model and its loss, the command line.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/cli/corpus.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/program.hpp>
#include <headroom/examples/cli/weights.hpp>
#include <headroom/examples/cli/windows_task.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/gpt2_names.hpp>

namespace headroom::gpt {

namespace {

/// By its name as a flag.
using NamedActivation = std::pair<std::string, Activation>;
const std::vector<NamedActivation> kActivations{
    {"gelu_tanh", Activation::gelu_tanh}, {"gelu_erf", Activation::gelu_erf}, {"relu", Activation::relu}};

/// Defaults are nanoGPT's configuration for a CPU.
struct GptFlags : cli::TextFlags {
    GptFlags() {
        steps = 2000;
        trainer.recomputes = nn::Gpt::recompute_ways();
        trainer.recompute = "mlp";
    }

    bool half_residual = false;
    bool no_bias = false;
    std::string activation = "gelu_tanh";

    nn::GptOptions model(std::int64_t kinds) const {
        return {.vocabulary = kinds,
                .block = longest(),
                .layers = layers,
                .heads = heads,
                .width = width,
                .dropout = dropout,
                .bias = !no_bias,
                .activation = std::ranges::find(kActivations, activation, &NamedActivation::first)->second,
                .half_residual = half_residual};
    }
};

/// Windows of a text, the model, and the loss of guessing each next token.
class GptTask final : public cli::WindowsTask<data::TextWindows> {
  public:
    GptTask(Parameters& parameters, const GptFlags& flags, std::int64_t batch, const cli::Corpus& corpus)
        : WindowsTask(parameters, cli::next_tokens(corpus, flags, batch), flags),
          flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), flags.model(corpus.vocabulary)) {}

    void begin() override {
        if (!flags_.from.empty()) cli::note_report(flags_, flags_.from, nn::load_gpt2(flags_.from, model_));
    }

    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }

    std::string sample() override {
        if (flags_.sample == 0) return "";
        const std::vector<std::int32_t> prompt = cli::prompt(corpus_, flags_);
        const auto all = nn::generate(model_, prompt, flags_.sample, flags_.sampling());
        return corpus_.decode(std::span(all).subspan(prompt.size()));
    }

    std::string describe() const override {
        const nn::GptOptions& model = model_.options;
        nlohmann::json json{{"model",
                             {{"vocabulary", model.vocabulary},
                              {"block", flags_.block},
                              {"positions", model.block},
                              {"layers", model.layers},
                              {"heads", model.heads},
                              {"width", model.width},
                              {"dropout", model.dropout},
                              {"half_residual", model.half_residual}}},
                            {"vocabulary", corpus_.description}};
        if (!model.bias) json["model"]["bias"] = false;
        if (model.activation != Activation::gelu_tanh) json["model"]["activation"] = flags_.activation;
        return json.dump();
    }

  private:
    const GptFlags& flags_;
    const cli::Corpus& corpus_;
    nn::Gpt model_;
};

cli::Program read_program(const GptFlags& flags) {
    const auto corpus = std::make_shared<const cli::Corpus>(cli::read_corpus(flags));
    cli::expect_vocabulary(flags, *corpus,
                           "encode the text with that model's tokenizer, and name the result with --tokens");
    cli::expect_length(flags, [&] { cli::next_tokens(*corpus, flags, flags.trainer.batch); });
    return {.data = corpus->what,
            .unit = "tokens",
            .units = flags.block,
            .reads = flags.reads(),
            .task = [&flags, corpus](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<GptTask>(parameters, flags, batch, *corpus);
            }};
}

/// The model's sizes from the file that it begins with.
void take_sizes(cli::App& app, GptFlags& flags) {
    const nn::GptOptions sizes = nn::gpt2_sizes(flags.from);
    cli::imply_sizes(app, flags, sizes, nn::gpt2_heads(flags.from));
    cli::imply(app, "--no-bias", sizes.bias ? "false" : "true", flags.from);
    if (!app.given("--activation")) {
        for (const auto& [name, activation] : kActivations)
            if (activation == sizes.activation) cli::imply(app, "--activation", name, flags.from);
        if (sizes.activation == Activation::gelu_erf)
            flags.note(fmt::format("{}: GELU is in its exact form; --activation changes that", flags.from));
    }
    if (flags.tokens.empty()) {
        flags.vocabulary = sizes.vocabulary;
    } else {
        cli::imply(app, "--vocabulary", fmt::to_string(sizes.vocabulary), flags.from);
    }
}

void add_flags(cli::App& app, GptFlags& flags) {
    const cli::Option tokens = cli::add_text_data(app, flags);
    cli::add_option(app, "--vocabulary", flags.vocabulary, "vocabulary size of --tokens; by default that of GPT-2")
        .check(cli::whole(1, std::int64_t{1} << 31))
        .needs(tokens);
    cli::add_text_sizes(app, flags);
    cli::add_flag(app, "--half-residual", flags.half_residual,
                  "keep the residual stream between blocks in --dtype, not in f32");
    cli::add_flag(app, "--no-bias", flags.no_bias, "linear layers and norms have no biases");
    std::vector<std::string> names;
    for (const auto& [name, activation] : kActivations) names.push_back(name);
    cli::add_option(app, "--activation", flags.activation,
                    "activation of the feed-forward parts: gelu_tanh as in GPT-2, gelu_erf as in nanoGPT, or relu")
        .check(cli::one_of(names))
        .show_default();
    cli::add_text_sampling(app, flags);
    cli::add_flags(app, flags);
    cli::add_from(
        app, flags.from,
        "GPT-2 weights to start from, in Hugging Face's or nanoGPT's format; the model takes its sizes from the file");
    app.callback([&] {
        if (!flags.from.empty()) take_sizes(app, flags);
        cli::check_heads(flags);
        if (flags.half_residual && !flags.autocast())
            throw cli::WrongUsage("--half-residual needs --dtype bf16 or f16");
        cli::check_positions(flags);
    });
}

}  // namespace

}  // namespace headroom::gpt

int main(int argc, char** argv) {
    using namespace headroom;
    cli::App app("Trains a GPT on a text file.", "train_gpt");
    gpt::GptFlags flags;
    gpt::add_flags(app, flags);
    return cli::run(app, argc, argv, [&] { cli::train(flags, [&] { return gpt::read_program(flags); }); });
}
