// Recurrent layers of f32 at widths on both sides of what kernels work on at once, against the same layers in f64.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/gru.hpp>
#include <headroom/core/ops/lstm.hpp>
#include <headroom/core/ops/reduce.hpp>

namespace headroom {
namespace recurrent_widths_test {

using Doubles = std::vector<double>;

constexpr std::int64_t kTime = 6, kBatch = 3, kIn = 5;

struct Widths {
    bool lstm;
    std::int64_t width, checkpoint;
};

class RecurrentWidths : public ::testing::TestWithParam<Widths> {
  protected:
    /// Numbers in [-0.5, 0.5] that f32 holds, the same for each call with one seed.
    Tensor leaf(const Shape& shape, unsigned seed, Dtype dtype) {
        std::mt19937 random(seed);
        Doubles values(static_cast<std::size_t>(shape.numel()));
        for (double& value : values) value = static_cast<double>(static_cast<int>(random() % 1024) - 512) / 1024;
        if (dtype == Dtype::f64) return context.from_host(values, shape).requires_grad_();
        return context.from_host(std::vector<float>(values.begin(), values.end()), shape).requires_grad_();
    }
    /// y of two directions, then the gradients of a weighted sum of it for x, the weights and biases.
    std::vector<Doubles> run(Dtype dtype) {
        const auto [lstm, width, checkpoint] = GetParam();
        const std::int64_t gates = lstm ? 4 : 3;
        unsigned seed = 1;
        std::vector<Tensor> leaves{leaf({kTime, kBatch, kIn}, seed++, dtype)};
        std::vector<RecurrentWeights> weights;
        for (int direction = 0; direction < 2; ++direction) {
            for (const Shape& shape :
                 {Shape{gates * width, kIn}, Shape{gates * width, width}, Shape{gates * width}, Shape{gates * width}})
                leaves.push_back(leaf(shape, seed++, dtype));
            const Tensor* last = &leaves[leaves.size() - 4];
            weights.push_back({last[0], last[1], last[2], last[3]});
        }
        const RecurrentOptions options{.bidirectional = true,
                                       .lengths = context.from_host(std::vector<std::int32_t>{6, 4, 5}, {kBatch}),
                                       .checkpoint = checkpoint};
        const Tensor y =
            lstm ? headroom::lstm(leaves[0], weights, {}, options).output : gru(leaves[0], weights, {}, options).output;
        std::vector<Doubles> results{y.to_vector<double>()};
        const Tensor factors = leaf(y.shape(), seed, dtype).detach();
        backward(sum(y * factors));
        for (const Tensor& x : leaves) results.push_back(x.grad().to_vector<double>());
        return results;
    }

    Context context = Context::cpu({.threads = 2});
};

/// A step adds I + H + 2 numbers to a gate, and a gradient those of all steps and batches; a gate's error reaches all
/// later steps.
TEST_P(RecurrentWidths, OfF32AreNearF64) {
    const std::vector<Doubles> exact = run(Dtype::f64), rounded = run(Dtype::f32);
    const double terms = static_cast<double>(kTime * kTime * kBatch * (kIn + GetParam().width + 2));
    for (std::size_t i = 0; i < exact.size(); ++i) {
        double largest = 0;
        for (const double value : exact[i]) largest = std::max(largest, std::abs(value));
        ASSERT_GT(largest, 0);
        for (std::size_t j = 0; j < exact[i].size(); ++j)
            ASSERT_NEAR(rounded[i][j], exact[i][j], terms * epsilon(Dtype::f32) * largest)
                << "result " << i << ", " << j;
    }
}

std::vector<Widths> all_widths() {
    std::vector<Widths> all;
    for (const bool lstm : {true, false}) {
        for (const std::int64_t width : {1, 15, 16, 17, 32, 48}) {
            for (const std::int64_t checkpoint : {0, 2}) all.push_back({lstm, width, checkpoint});
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Cells, RecurrentWidths, ::testing::ValuesIn(all_widths()), [](const auto& info) {
    return std::string(info.param.lstm ? "lstm" : "gru") + std::to_string(info.param.width) + "_" +
           std::to_string(info.param.checkpoint);
});

}  // namespace recurrent_widths_test
}  // namespace headroom
