#pragma once
// The small problem and the model that docs/guide.md trains: is a point of the plane inside of the circle?
//
//     const data::MemoryDataset<std::int32_t> points = circle_points(512);
//     Classifier model(parameters);
#include <cstdint>
#include <vector>

#include <headroom/core/ops/unary.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/linear.hpp>

namespace headroom {

struct Classifier : nn::Module<Classifier> {
    nn::Linear hidden;
    nn::Dropout drop;
    nn::Linear out;

    explicit Classifier(const nn::Path& path)
        : Module(path), hidden(path / "hidden", 2, 32), drop(path / "drop", 0.1), out(path / "out", 32, 2) {}

    /// [batch, 2] -> [batch, 2]
    Tensor forward(const Tensor& x) const { return out(drop(relu(hidden(x)))); }
};

/// Points of a lattice over [-1, 1] x [-1, 1]; class 1 lies inside of the circle with radius 0.8.
inline data::MemoryDataset<std::int32_t> circle_points(int per_side) {
    std::vector<float> features;
    std::vector<std::int32_t> classes;
    for (int i = 0; i < per_side * per_side; ++i) {
        const float x = 2.0f * static_cast<float>(i % per_side) / static_cast<float>(per_side - 1) - 1.0f;
        const float y = 2.0f * static_cast<float>(i / per_side) / static_cast<float>(per_side - 1) - 1.0f;
        features.insert(features.end(), {x, y});
        classes.push_back(x * x + y * y < 0.64f ? 1 : 0);
    }
    return {std::move(features), {2}, std::move(classes)};
}

}  // namespace headroom
