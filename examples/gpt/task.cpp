#include <headroom/examples/gpt/task.hpp>

#include <span>

#include <nlohmann/json.hpp>

#include <headroom/examples/text/corpus.hpp>
#include <headroom/examples/text/windows_task.hpp>
#include <headroom/nn/gpt2_names.hpp>

namespace headroom::gpt {

namespace {

class GptTask final : public text::WindowsTask<data::TextWindows> {
  public:
    GptTask(Parameters& parameters, const GptFlags& flags, std::int64_t batch, const text::Corpus& corpus)
        : WindowsTask(parameters, text::next_tokens(corpus, flags, batch), flags),
          flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), flags.model(corpus.vocabulary)) {}

    void begin() override {
        if (!flags_.from.empty()) nn::load_gpt2(flags_.from, model_);
    }

    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }

    std::string describe() const override {
        const nn::GptOptions& model = model_.options;
        const nlohmann::json json{{"model",
                                   {{"vocabulary", model.vocabulary},
                                    {"block", flags_.block},
                                    {"positions", model.block},
                                    {"layers", model.layers},
                                    {"heads", model.heads},
                                    {"width", model.width},
                                    {"dropout", model.dropout},
                                    {"half_residual", model.half_residual}}},
                                  {"vocabulary", corpus_.description}};
        return json.dump();
    }

    std::string sample() override {
        if (flags_.sample == 0) return "";
        const std::vector<std::int32_t> prompt = text::prompt(corpus_, flags_);
        const auto all = nn::generate(model_, prompt, flags_.sample, flags_.sampling());
        return corpus_.decode(std::span(all).subspan(prompt.size()));
    }

  private:
    const GptFlags& flags_;
    const text::Corpus& corpus_;
    nn::Gpt model_;
};

}  // namespace

program::Program text_program(const GptFlags& flags) {
    const auto corpus = std::make_shared<const text::Corpus>(text::read_corpus(flags));
    text::expect_vocabulary(flags, *corpus,
                            "encode the text with that model's tokenizer, and name the result with --tokens");
    text::expect_length(flags, [&] { text::next_tokens(*corpus, flags, flags.batch); });
    return {.data = corpus->what,
            .unit = "tokens",
            .units = flags.block,
            .reads = flags.reads(),
            .task = [&flags, corpus](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<GptTask>(parameters, flags, batch, *corpus);
            }};
}

}  // namespace headroom::gpt
