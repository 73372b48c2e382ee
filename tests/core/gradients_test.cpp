// Gradients of every op against finite differences in f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/core/ops/all_ops.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/tests/support/sample_calls.hpp>

namespace headroom::test {
namespace {

class Gradients : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }
    Context context = Context::cpu({.threads = 1});
    Seed seed;
};

/// The projected outputs, and the sum of their magnitudes.
struct Loss {
    double value = 0.0;
    double magnitude = 0.0;
};

Loss evaluate(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<HostInput>& inputs,
              const Seed& seed) {
    const NoGradGuard no_grad(context);
    const auto outputs = call(context, op, sample, place_all(context, inputs, Dtype::f64, Layout::contiguous, false));
    long double value = 0.0L;
    Loss loss;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!kernels::is_floating(outputs[i].dtype())) continue;
        const auto y = outputs[i].to_vector<double>();
        const auto r = draw_projection(outputs[i].numel(), i, seed);
        for (std::size_t k = 0; k < y.size(); ++k) {
            value += static_cast<long double>(r[k]) * y[k];
            loss.magnitude += std::abs(r[k] * y[k]);
        }
    }
    loss.value = static_cast<double>(value);
    return loss;
}

struct Derivative {
    double value;
    double error;
};

/// Central differences with steps h, h / 2 and h / 4, extrapolated twice (Richardson), so that what is left is O(h^6).
/// Its size is told by the last correction; rounding adds what the evaluations lose, divided by the smallest step.
Derivative differentiate(Context& context, const OpEntry& op, const ErasedSample& sample,
                         std::vector<HostInput>& inputs, double& x, std::size_t terms, const Seed& seed) {
    constexpr double h = 1.0 / 512;
    double differences[3];
    double magnitude = 0.0;
    const double at = x;
    for (int i = 0; i < 3; ++i) {
        const double step = h / (1 << i);
        x = at + step;
        const Loss above = evaluate(context, op, sample, inputs, seed);
        x = at - step;
        const Loss below = evaluate(context, op, sample, inputs, seed);
        differences[i] = (above.value - below.value) / (2 * step);
        magnitude = std::max({magnitude, above.magnitude, below.magnitude});
    }
    x = at;
    const double first = (4 * differences[1] - differences[0]) / 3;
    const double second = (4 * differences[2] - differences[1]) / 3;
    const double rounding = static_cast<double>(64 + terms) * epsilon(Dtype::f64) * (magnitude + 1.0) / (h / 4);
    return {(16 * second - first) / 15, std::abs(second - first) + rounding};
}

std::size_t element_count(const std::vector<HostInput>& inputs) {
    std::size_t count = 0;
    for (const HostInput& input : inputs) count += input.values.size();
    return count;
}

TEST_P(Gradients, AgreeWithFiniteDifferences) {
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        std::vector<HostInput> inputs = draw(sample, seed);
        const auto placed = place_all(context, inputs, Dtype::f64, Layout::contiguous);
        const auto computed = gradients(context, op(), sample, placed, seed);
        const std::size_t terms = element_count(inputs);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!is_floating(inputs[i].what)) continue;
            ASSERT_EQ(computed[i].size(), inputs[i].values.size()) << "no gradient of input " << i;
            for (std::size_t k = 0; k < inputs[i].values.size(); ++k) {
                const Derivative expected =
                    differentiate(context, op(), sample, inputs, inputs[i].values[k], terms, seed);
                ASSERT_NEAR(computed[i][k], expected.value, expected.error) << "input " << i << ", element " << k;
            }
        }
    }
}

TEST_P(Gradients, AddUpOverUsesOfAnInput) {
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const std::vector<HostInput> inputs = draw(sample, seed);
        const auto once =
            gradients(context, op(), sample, place_all(context, inputs, Dtype::f64, Layout::contiguous), seed);
        const auto placed = place_all(context, inputs, Dtype::f64, Layout::contiguous);
        gradients(context, op(), sample, placed, seed);
        const auto twice = gradients(context, op(), sample, placed, seed);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            ASSERT_EQ(twice[i].size(), once[i].size());
            const double bound =
                static_cast<double>(8 + element_count(inputs)) * epsilon(Dtype::f64) * largest(once[i]);
            for (std::size_t k = 0; k < once[i].size(); ++k) {
                ASSERT_NEAR(twice[i][k], 2 * once[i][k], bound) << "input " << i << ", element " << k;
            }
        }
    }
}

TEST_P(Gradients, AddUpWhereOneTensorIsTwoInputs) {
    for (const ErasedSample& sample : accepted(op())) {
        if (sample.inputs.size() < 2 || !is_floating(sample.inputs[0]) || !is_floating(sample.inputs[1])) continue;
        if (sample.inputs[0].shape != sample.inputs[1].shape) continue;
        SCOPED_TRACE(describe(op(), sample, seed));
        std::vector<HostInput> inputs = draw(sample, seed);
        inputs[1].values = inputs[0].values;
        auto placed = place_all(context, inputs, Dtype::f64, Layout::contiguous);
        const auto apart = gradients(context, op(), sample, placed, seed);
        placed = place_all(context, inputs, Dtype::f64, Layout::contiguous);
        placed[1] = placed[0];
        const auto together = gradients(context, op(), sample, placed, seed);
        const double scale = largest(apart[0]) + largest(apart[1]);
        const double bound = static_cast<double>(8 + element_count(inputs)) * epsilon(Dtype::f64) * scale;
        for (std::size_t k = 0; k < apart[0].size(); ++k) {
            ASSERT_NEAR(together[0][k], apart[0][k] + apart[1][k], bound) << "element " << k;
        }
    }
}

/// Inputs that only the call holds: forward and backward may write over them, and over what they saved.
TEST_P(Gradients, AreTheSameWhereStorageIsTakenOver) {
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const auto leaves = place_all(context, draw(sample, seed), Dtype::f64, Layout::contiguous);
        const auto expected = gradients(context, op(), sample, leaves, seed);
        for (const Tensor& leaf : leaves) {
            if (leaf.defined()) leaf.zero_grad();
        }
        std::vector<Tensor> inputs;
        for (const Tensor& leaf : leaves) inputs.push_back(leaf.defined() ? clone(leaf) : Tensor());
        Tensor loss = projected(context, call(context, op(), sample, std::move(inputs)), seed);
        if (loss.defined()) backward(loss);
        for (std::size_t i = 0; i < leaves.size(); ++i) {
            if (expected[i].empty()) continue;
            EXPECT_EQ(leaves[i].grad().to_vector<double>(), expected[i]) << "input " << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Gradients, testing::ValuesIn(differentiable_ops()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace
}  // namespace headroom::test
