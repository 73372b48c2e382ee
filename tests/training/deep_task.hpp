#pragma once
// A deep perceptron: what it keeps for backward is more than its weights, so that there is something to plan.
//
//     const training::MakeTask task = training::task<test::Deep>(test::deep_points());
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::test {

using DeepPoints = data::MemoryDataset<std::int32_t>;

/// Twice a prime: a planner looks for plans of each divisor.
constexpr std::int64_t kDeepWidth = 128, kDeepBatch = 2 * 509;

/// One batch.
inline DeepPoints deep_points() {
    std::vector<float> features(2 * kDeepBatch);
    std::iota(features.begin(), features.end(), 0.0f);
    for (float& feature : features) feature /= kDeepBatch;
    std::vector<std::int32_t> labels(kDeepBatch);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 2);
    return {features, {2}, labels};
}

class Deep : public training::DataTask<DeepPoints> {
  public:
    Deep(Parameters& parameters, std::int64_t batch, const DeepPoints& points)
        : DataTask(parameters, training::shuffled(points, points, batch, 7)),
          out_(nn::Path(parameters) / "out", kDeepWidth, 2) {
        for (int i = 0; i < 16; ++i) {
            const std::int64_t in = i == 0 ? 2 : kDeepWidth;
            layers_.push_back(
                std::make_unique<nn::Linear>(nn::Path(parameters) / ("layer" + std::to_string(i)), in, kDeepWidth));
        }
    }
    Loss loss(const Batch& batch) override {
        Tensor x = batch[0];
        for (const auto& layer : layers_) x = tanh((*layer)(x));
        return cross_entropy(out_(x), batch[1]);
    }
    training::Validation validate(const training::ProgressCallback&) override { return {}; }

  private:
    std::vector<std::unique_ptr<nn::Linear>> layers_;
    nn::Linear out_;
};

}  // namespace headroom::test
