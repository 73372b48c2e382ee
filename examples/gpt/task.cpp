#include <headroom/examples/gpt/task.hpp>

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/examples/gpt/corpus.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt2_names.hpp>

namespace headroom::gpt {

namespace {

class TextTask final : public program::Task {
  public:
    TextTask(Parameters& parameters, const GptFlags& flags, std::int64_t batch, const Corpus& corpus)
        : flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), flags.model(corpus.vocabulary)),
          training_(corpus.split.train, flags.block, data::WindowStart::every_token),
          validation_(corpus.split.validation, flags.block, data::WindowStart::every_block),
          loader_(training_, data::Sampler::with_replacement(training_.size(), batch, flags.seed)),
          feed_(parameters.context()) {}

    void begin() override {
        if (!flags_.from.empty()) nn::load_gpt2(flags_.from, model_);
    }

    Batch batch() override { return upload(program::next_batch(loader_)); }
    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }

    program::Validation evaluate() override {
        data::DataLoader<data::TextWindows> loader(validation_, validation_.in_order(loader_.sampler().batch()),
                                                   {.epochs = 1});
        double total = 0, terms = 0;
        while (const data::TokenBatch* batch = loader.next()) {
            const Loss loss = this->loss(upload(*batch));
            total += loss.sum().item();
            terms += loss.terms();
        }
        return {.loss = total / terms, .metric = std::nullopt};
    }

    nn::CheckpointPart order() override { return loader_; }

    nlohmann::json describe() const override {
        const nn::GptOptions& model = model_.options;
        return {{"model",
                 {{"vocabulary", model.vocabulary},
                  {"block", flags_.block},
                  {"positions", model.block},
                  {"layers", model.layers},
                  {"heads", model.heads},
                  {"width", model.width},
                  {"dropout", model.dropout},
                  {"half_residual", model.half_residual}}},
                {"vocabulary", corpus_.description}};
    }

    /// Text after the first line of the validation split, safe to print.
    std::string sample() override {
        if (flags_.sample == 0) return "";
        const data::TokenView text = corpus_.split.validation;
        std::vector<std::int32_t> prompt(static_cast<std::size_t>(std::min(text.size(), flags_.block / 2 + 1)));
        text.copy(0, prompt);
        const nn::SamplingOptions options{.temperature = flags_.temperature, .top_k = flags_.top_k};
        const auto all = nn::generate(model_, prompt, flags_.sample, options);
        return corpus_.decode(std::span(all).subspan(prompt.size()));
    }

  private:
    Batch upload(const data::TokenBatch& batch) {
        const Shape shape{batch.rows, batch.length};
        const auto [inputs, targets] = feed_.upload({{batch.inputs, shape}, {batch.targets, shape}});
        return {inputs, targets};
    }

    const GptFlags& flags_;
    const Corpus& corpus_;
    nn::Gpt model_;
    data::TextWindows training_;
    data::TextWindows validation_;
    data::DataLoader<data::TextWindows> loader_;
    data::Feed feed_;
};

}  // namespace

program::Program text_program(const GptFlags& flags) {
    const auto corpus = std::make_shared<const Corpus>(read_corpus(flags));
    if (!flags.from.empty() && corpus->vocabulary != flags.vocabulary) {
        throw Error(fmt::format(
            "--from {}: it knows {} kinds of tokens, {} has {}; encode the text with that model's tokenizer, and "
            "name the result with --tokens",
            flags.from, flags.vocabulary, flags.data, corpus->vocabulary));
    }
    return {.data = corpus->what,
            .unit = "tokens",
            .units = flags.block,
            .reads = {{"--data", flags.data}, {"--from", flags.from}, {"--token-names", flags.token_names}},
            .task = [&flags, corpus](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<TextTask>(parameters, flags, batch, *corpus);
            }};
}

}  // namespace headroom::gpt
