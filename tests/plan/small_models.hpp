#pragma once
// Trainings for planners and simulations, of modules alone: two steps, without an optimizer.
//
//     train_model(context, {64, 128}, [&](Tensor x) { return gelu(layer(std::move(x))); });
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/low_rank.hpp>

namespace headroom::plan {

/// Two steps, of a loss that a model makes of one x.
inline void train_model(Context& context, const Shape& x, const std::function<Tensor(Tensor)>& model) {
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(context);
            loss = sum(model(context.from_host(std::vector<float>(static_cast<std::size_t>(x.numel()), 1.0f), x)));
        }
        backward(loss);
    }
}

/// Frozen linear layers with adapters.
inline void train_adapters(Context& context, std::int64_t batch) {
    Parameters parameters(context);
    std::vector<nn::Linear> layers;
    for (std::size_t i = 0; i < 6; ++i) layers.emplace_back(nn::Path(parameters) / "layers" / i, 192, 192);
    parameters.freeze("**");
    for (std::size_t i = 0; i < layers.size(); ++i)
        nn::add_low_rank(layers[i], nn::Path(parameters) / "adapters" / i, {.rank = 4});
    train_model(context, {batch, 192}, [&](Tensor x) {
        for (const nn::Linear& layer : layers) x = gelu(layer(std::move(x)));
        return x;
    });
}

}  // namespace headroom::plan
