// Trains a language model on a text file: an LSTM or a GRU, which guess the next token, or a BERT, which guesses hidden
// ones.
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <headroom/examples/cli/corpus.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/outcome.hpp>
#include <headroom/examples/cli/program.hpp>
#include <headroom/examples/cli/text_flags.hpp>
#include <headroom/examples/text/masked_task.hpp>
#include <headroom/examples/text/recurrent_task.hpp>
#include <headroom/nn/bert_names.hpp>

namespace headroom::text {

namespace {

constexpr const char* kExamples = R"(
Examples:
  train_text --data input.txt --save run.safetensors --sample 500
  train_text --resume run.safetensors --steps 2000 --sample 500
  train_text --model gru --data input.txt --bytes --recompute layers
  train_text --model bert --data input.txt --vocabulary vocab.txt --from bert-base-uncased/model.safetensors --lr 5e-5)";

struct ModelFlags : cli::TextFlags {
    ModelFlags() {
        steps = 1000;
        layers = 2;
        width = 256;
        block = 128;
        trainer.batch = 32;
        trainer.schedule.peak = 2e-3;
        dropout = 0.1;
        trainer.recomputes = nn::BertForMaskedLm::recompute_ways();
        trainer.recomputes.back().what += "; for lstm and gru, which have no cheap, the gates, from some states";
    }

    std::string model = "lstm";
    std::string given_vocabulary;  ///< vocab.txt, or how many kinds
    std::int64_t hidden = 0;  ///< BERT's, between the two products of a layer's second half; 0: four times the width

    bool masked() const { return model == "bert"; }
    nn::RecurrentNetOptions recurrent() const {
        return {.in = width, .width = width, .layers = layers, .dropout = dropout};
    }
    nn::BertOptions bert(std::int64_t kinds, std::optional<std::int64_t> padding) const {
        return {.vocabulary = kinds,
                .block = longest(),
                .layers = layers,
                .heads = heads,
                .width = width,
                .hidden = hidden > 0 ? hidden : 4 * width,
                .dropout = dropout,
                .attention_dropout = dropout,
                .padding = padding};
    }
};

/// --vocabulary is a number of kinds, or the file that lists them.
void take_vocabulary(ModelFlags& flags) {
    const std::string& given = flags.given_vocabulary;
    const char* const end = given.data() + given.size();
    std::int64_t kinds = 0;
    if (const auto [stop, error] = std::from_chars(given.data(), end, kinds); stop != end || error != std::errc()) {
        flags.pieces = given;
    } else if (flags.tokens.empty()) {
        throw cli::WrongUsage(
            fmt::format("--vocabulary {}: a vocabulary size is for --tokens; name a vocab.txt", given));
    } else if (kinds < 1 || kinds > std::int64_t{1} << 30) {
        throw cli::WrongUsage(fmt::format("--vocabulary {} is not a whole number in [1, 2^30]", given));
    } else {
        flags.vocabulary = kinds;
    }
}

/// The model's sizes from the file that it begins with.
void take_sizes(cli::App& app, ModelFlags& flags) {
    const nn::BertOptions sizes = nn::bert_sizes(flags.from);
    cli::imply_sizes(app, flags, sizes, nn::bert_heads(flags.from));
    cli::imply(app, "--hidden", fmt::to_string(sizes.hidden), flags.from);
    flags.vocabulary = sizes.vocabulary;
}

/// BERT's own defaults: in long windows it takes long until it learns from both sides.
void take_defaults(cli::App& app, const ModelFlags& flags) {
    if (!flags.masked() || !flags.from.empty()) return;
    for (const auto& [name, value] : {std::pair{"--block", "32"}, {"--batch", "64"}, {"--dropout", "0"}}) {
        if (!app.given(name)) cli::imply(app, name, value, flags.model);
    }
}

/// Flags have BERT's ways; those of LSTM and GRU are the task's.
void take_recompute(ModelFlags& flags) {
    if (!flags.masked()) flags.trainer.recomputes = recurrent_ways();
}

void check_for_model(const ModelFlags& flags) {
    const auto refuse = [&](bool given, const char* name) {
        if (given) throw cli::WrongUsage(fmt::format("{} is not for --model {}", name, flags.model));
    };
    if (flags.masked()) {
        refuse(!flags.token_names.empty(), "--token-names");
        refuse(flags.temperature != ModelFlags().temperature, "--temperature");  // its guesses are the likeliest
        refuse(flags.top_k > 0, "--top-k");
        cli::check_heads(flags);
        cli::check_positions(flags);
        if (flags.block < 3)
            throw cli::WrongUsage("--block must be at least 3 for bert, whose blocks hold [CLS] and [SEP] as well");
    } else {
        refuse(flags.hidden > 0, "--hidden");
        refuse(flags.positions > 0, "--positions");
        refuse(!flags.from.empty(), "--from");
        refuse(flags.trainer.recompute == "cheap", "--recompute cheap");
    }
}

void add_flags(cli::App& app, ModelFlags& flags) {
    cli::add_option(app, "--model", flags.model,
                    "lstm or gru, which predict the next token, or bert, which predicts masked ones (with defaults of "
                    "its own: --block 32, --batch 64, --dropout 0)")
        .check(cli::one_of({"lstm", "gru", "bert"}))
        .show_default();
    cli::add_text_data(app, flags);
    cli::add_option(app, "--vocabulary", flags.given_vocabulary,
                    "vocab.txt of a WordPiece tokenizer, as Hugging Face provides it for BERT, whose pieces are the "
                    "tokens; or, with --tokens, the vocabulary size (50257)")
        .type_name("FILE|INT")
        .excludes("--bytes");
    cli::add_option(app, "--case", flags.letter_case,
                    "case of letters, with a vocab.txt: lower or keep; by default what tokenizer_config.json beside it "
                    "says, or else keep if its pieces have capitals")
        .check(cli::one_of({"lower", "keep"}));
    cli::add_text_sizes(app, flags);
    cli::add_option(app, "--hidden", flags.hidden, "feed-forward width of bert's layers; 0: four times --width")
        .check(cli::whole(0, 1 << 20));
    cli::add_text_sampling(app, flags);
    app.option("--sample")
        .description("tokens of text to print at the end: lstm and gru continue a text, bert fills in masked tokens");
    cli::add_flags(app, flags);
    cli::add_from(app, flags.from,
                  "BERT weights to start from, in Hugging Face's format; the model takes its sizes from the file");
    app.footer(kExamples);
    app.callback([&] {
        if (!flags.given_vocabulary.empty()) take_vocabulary(flags);
        if (!flags.from.empty() && flags.masked()) take_sizes(app, flags);
        take_defaults(app, flags);
        if (!flags.letter_case.empty() && flags.pieces.empty())
            throw cli::WrongUsage("--case is for the vocab.txt that --vocabulary names");
        check_for_model(flags);
        take_recompute(flags);
    });
}

std::unique_ptr<training::Task> make_task(Parameters& parameters, const ModelFlags& flags, std::int64_t batch,
                                          const cli::Corpus& corpus) {
    if (flags.masked())
        return std::make_unique<MaskedTask>(parameters, flags, batch, corpus,
                                            flags.bert(corpus.vocabulary, corpus.padding));
    if (flags.model == "gru") return std::make_unique<GruTask>(parameters, flags, batch, corpus, flags.recurrent());
    return std::make_unique<LstmTask>(parameters, flags, batch, corpus, flags.recurrent());
}

cli::Program text_program(const ModelFlags& flags) {
    const auto corpus =
        std::make_shared<const cli::Corpus>(flags.masked() ? cli::read_special_corpus(flags) : cli::read_corpus(flags));
    cli::expect_vocabulary(flags, *corpus, "name the vocab.txt of that model with --vocabulary");
    cli::expect_length(flags, [&] {
        flags.masked() ? void(hidden_tokens(*corpus, flags, flags.trainer.batch))
                       : void(cli::next_tokens(*corpus, flags, flags.trainer.batch));
    });
    return {.data = corpus->what,
            .unit = "tokens",
            .units = flags.block,
            .reads = flags.reads(),
            .task = [&flags, corpus](Parameters& parameters, std::int64_t batch) {
                return make_task(parameters, flags, batch, *corpus);
            }};
}

}  // namespace
}  // namespace headroom::text

int main(int argc, char** argv) {
    using namespace headroom;
    cli::App app("Trains an LSTM, a GRU or a BERT on a text file.", "train_text");
    text::ModelFlags flags;
    text::add_flags(app, flags);
    return cli::run(app, argc, argv, [&] { cli::train(flags, [&] { return text::text_program(flags); }); });
}
