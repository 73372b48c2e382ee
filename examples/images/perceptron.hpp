#pragma once
// A multi-layer perceptron, as deep as one likes.
//
//     images::Perceptron model(parameters, /*values=*/28 * 28, /*classes=*/10, {.layers = 40});
//     Tensor logits = model(images);   // [batch, channels, height, width] -> [batch, classes]
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/recompute_way.hpp>

namespace headroom::images {

struct PerceptronOptions {
    std::int64_t layers = 2;  ///< hidden ones
    std::int64_t hidden = 512;
    double dropout = 0.3;
};

/// Linear layers over all values of an image; ReLU and dropout follow the hidden ones.
class Perceptron : public nn::Module<Perceptron> {
  public:
    Perceptron(const nn::Path& path, std::int64_t values, std::int64_t classes, const PerceptronOptions& options)
        : Module(path) {
        for (std::int64_t layer = 1; layer <= options.layers; ++layer) {
            layers_.emplace_back(path / fmt::format("fc{}", layer), values, options.hidden);
            drops_.emplace_back(path / fmt::format("drop{}", layer), options.dropout);
            values = options.hidden;
        }
        layers_.emplace_back(path / fmt::format("fc{}", options.layers + 1), values, classes);
    }

    static nn::RecomputeWays recompute_ways() { return {{}, nn::cheap_way("", "activations")}; }

    Tensor forward(const Tensor& images) const {
        Tensor x = images.permute({0, 2, 3, 1}).reshape({images.size(0), -1});  // as channels lie, so it is no copy
        for (std::size_t i = 0; i < drops_.size(); ++i) x = drops_[i](relu(layers_[i](std::move(x))));
        return layers_.back()(std::move(x));
    }

  private:
    std::vector<nn::Linear> layers_;
    std::vector<nn::Dropout> drops_;
};

}  // namespace headroom::images
