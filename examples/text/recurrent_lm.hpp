#pragma once
// A language model of recurrent layers: a table of tokens, an LSTM or a GRU, and a head, with dropout between them.
//
//     const text::RecurrentLm<nn::Gru> model(parameters, 65, {.in = 256, .width = 256, .layers = 2, .dropout = 0.1});
//     const Loss loss = model.loss(ids, targets);     // i32 [batch, time] each
//     Tensor state;
//     const Tensor logits = model.next(ids, state);   // of the token behind the last one; `state` is carried on
#include <headroom/core/ops/linear_cross_entropy.hpp>
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

}  // namespace headroom::text
