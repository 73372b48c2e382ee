#include <nlohmann/json.hpp>

#include <headroom/examples/text/recurrent_lm.hpp>
#include <headroom/examples/text/task.hpp>
#include <headroom/examples/text/windows_task.hpp>

namespace headroom::text {

namespace {

template <class Net, class State>
class RecurrentTask final : public WindowsTask<data::TextWindows> {
  public:
    RecurrentTask(Parameters& parameters, const ModelFlags& flags, std::int64_t batch, const Corpus& corpus)
        : WindowsTask(parameters, next_tokens(corpus, flags, batch), flags),
          flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), corpus.vocabulary, flags.recurrent()) {}

    void recompute(const std::string& name) override {
        if (name != "none") model_.layers.options.checkpoint = kSqrtOfTime;
    }

    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }

    std::string describe() const override {
        const nlohmann::json json{{"model",
                                   {{"kind", flags_.model},
                                    {"vocabulary", corpus_.vocabulary},
                                    {"block", flags_.block},
                                    {"layers", flags_.layers},
                                    {"width", flags_.width},
                                    {"dropout", flags_.dropout}}},
                                  {"vocabulary", corpus_.description}};
        return json.dump();
    }

    std::string sample() override {
        if (flags_.sample == 0) return "";
        Context& context = model_.context();
        const KeptCasts casts(context);
        nn::TokenDraws draw(context, flags_.sampling());
        State state;
        std::vector<std::int32_t> seen = prompt(corpus_, flags_), text;
        for (std::int64_t i = 0; i < flags_.sample; ++i) {
            const Tensor ids = context.from_host(seen, {1, static_cast<std::int64_t>(seen.size())});
            text.push_back(draw(model_.next(ids, state)));
            seen = {text.back()};
        }
        return corpus_.decode(text);
    }

  private:
    const ModelFlags& flags_;
    const Corpus& corpus_;
    RecurrentLm<Net> model_;
};

}  // namespace

std::unique_ptr<training::Task> recurrent_task(Parameters& parameters, const ModelFlags& flags, std::int64_t batch,
                                               const Corpus& corpus) {
    if (flags.model == "gru") return std::make_unique<RecurrentTask<nn::Gru, Tensor>>(parameters, flags, batch, corpus);
    return std::make_unique<RecurrentTask<nn::Lstm, LstmState>>(parameters, flags, batch, corpus);
}

void expect_recurrent_windows(const ModelFlags& flags, const Corpus& corpus) {
    next_tokens(corpus, flags, flags.batch);
}

}  // namespace headroom::text
