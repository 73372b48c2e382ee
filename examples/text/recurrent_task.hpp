#pragma once
// An LSTM or a GRU that guesses each next token of a text, as a training program's task: a table of tokens, the
// recurrent layers, and a head, with dropout between them.
//
//     const text::RecurrentLm<nn::Gru> model(parameters, 65, {.in = 256, .width = 256, .layers = 2, .dropout = 0.1});
//     const Loss loss = model.loss(ids, targets);     // i32 [batch, time] each
//     Tensor state;
//     const Tensor logits = model.next(ids, state);   // of the token behind the last one; `state` is carried on
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/examples/cli/corpus.hpp>
#include <headroom/examples/cli/windows_task.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/lstm.hpp>

namespace headroom::text {

/// `Net`: nn::Lstm, whose state is an LstmState, or nn::Gru, whose state is a Tensor.
template <class Net>
class RecurrentLm : public nn::Module<RecurrentLm<Net>> {
  public:
    RecurrentLm(const nn::Path& path, std::int64_t vocabulary, const nn::RecurrentNetOptions& options)
        : nn::Module<RecurrentLm>(path),
          tokens(path / "tokens", vocabulary, options.in),
          drop(path / "drop", options.dropout),
          layers(path / "layers", options),
          head(path / "head", options.width, vocabulary, {.bias = false}) {}

    /// The cross entropy over all positions.
    Loss loss(const Tensor& ids, const Tensor& targets) const {
        RegionScope scope(this->context(), this->path());
        Tensor x = drop(layers(embedded(ids)).output).reshape({-1, layers.options.width});
        return linear_cross_entropy(std::move(x), head.weight, in_time(targets).reshape({-1}));
    }

    template <class State>
    Tensor next(const Tensor& ids, State& state) const {
        RegionScope scope(this->context(), this->path());
        auto [all, last] = layers(embedded(ids), state);
        state = std::move(last);
        return head(all.select(0, -1));
    }

    nn::Embedding tokens;
    nn::Dropout drop;
    Net layers;
    nn::Linear head;

  private:
    /// [time, batch], as the layers take it.
    static Tensor in_time(const Tensor& ids) { return ids.transpose(0, 1); }

    Tensor embedded(const Tensor& ids) const { return drop(tokens(in_time(ids))); }
};

/// The task knows the second one by its name.
inline nn::RecomputeWays recurrent_ways() { return {{}, {"layers", "the gates, from some states"}}; }

template <class Net, class State>
class RecurrentTask final : public cli::WindowsTask<data::TextWindows> {
  public:
    RecurrentTask(Parameters& parameters, const cli::TextFlags& flags, std::int64_t batch, const cli::Corpus& corpus,
                  const nn::RecurrentNetOptions& options)
        : WindowsTask(parameters, cli::next_tokens(corpus, flags, batch), flags),
          flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), corpus.vocabulary, options) {}

    void recompute(const std::string& name) override {
        if (name != "none") model_.layers.options.checkpoint = kSqrtOfTime;
    }

    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }

    std::string describe() const override {
        const nlohmann::json json{{"model",
                                   {{"kind", std::is_same_v<Net, nn::Gru> ? "gru" : "lstm"},
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
        std::vector<std::int32_t> seen = cli::prompt(corpus_, flags_), text;
        for (std::int64_t i = 0; i < flags_.sample; ++i) {
            const Tensor ids = context.from_host(seen, {1, static_cast<std::int64_t>(seen.size())});
            text.push_back(draw(model_.next(ids, state)));
            seen = {text.back()};
        }
        return corpus_.decode(text);
    }

  private:
    const cli::TextFlags& flags_;
    const cli::Corpus& corpus_;
    RecurrentLm<Net> model_;
};

using LstmTask = RecurrentTask<nn::Lstm, LstmState>;
using GruTask = RecurrentTask<nn::Gru, Tensor>;

}  // namespace headroom::text
