// Ops whose kernels write several gradients at once, called with inputs that share memory.
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom {
namespace joint_targets_test {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

class JointTargetsTest : public ::testing::Test {
  protected:
    Tensor leaf(const Shape& shape, double phase) {
        std::vector<double> values;
        for (std::int64_t i = 0; i < shape.numel(); ++i)
            values.push_back(std::sin(phase + 1.7 * static_cast<double>(i)));
        return context.from_host(values, shape).requires_grad_();
    }

    /// The gradient of a weighted sum of `function`'s result.
    void differentiate(const Function& function, const std::vector<Tensor>& inputs) {
        const Tensor y = function(inputs);
        Tensor weights = leaf(y.shape(), 0.3).requires_grad_(false);
        backward(sum(y * weights));
    }

    /// One leaf given several times, through views, must get the sum of the gradients of copies.
    void expect_sum(const Function& function, const Tensor& x, const std::vector<Tensor>& views) {
        std::vector<Tensor> copies;
        for (const Tensor& view : views)
            copies.push_back(context.from_host(view.to_vector<double>(), view.shape()).requires_grad_());
        differentiate(function, copies);
        // What arrives through a view is put where the view looks: a linear function of x with that gradient does it.
        Tensor expected;
        for (std::size_t i = 0; i < views.size(); ++i) {
            const Tensor part = sum(views[i] * copies[i].grad());
            expected = expected.defined() ? expected + part : part;
        }
        backward(expected);
        const std::vector<double> want = x.grad().to_vector<double>();
        x.zero_grad();
        differentiate(function, views);
        const std::vector<double> got = x.grad().to_vector<double>();
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-13) << "element " << i;
    }

    Context context = Context::cpu({.threads = 2});
    const Function layer_norm3 = [](const std::vector<Tensor>& x) { return layer_norm(x[0], x[1], x[2]); };
    const Function rms_norm2 = [](const std::vector<Tensor>& x) { return rms_norm(x[0], x[1]); };
    const Function attention3 = [](const std::vector<Tensor>& x) { return attention(x[0], x[1], x[2], true); };
};

TEST_F(JointTargetsTest, OneTensorAsGammaAndBeta) {
    Tensor x = leaf({5, 4}, 0);
    Tensor gamma = leaf({4}, 1);
    expect_sum([&](const std::vector<Tensor>& p) { return layer_norm(x, p[0], p[1]); }, gamma, {gamma, gamma});
}

TEST_F(JointTargetsTest, OneTensorAsEverythingOfANorm) {
    Tensor x = leaf({6}, 0);
    expect_sum(layer_norm3, x, {x, x, x});
    Tensor z = leaf({6}, 0.5);
    expect_sum(rms_norm2, z, {z, z});
}

TEST_F(JointTargetsTest, ARowOfTheInputAsGamma) {
    Tensor x = leaf({3, 4}, 0);
    expect_sum(layer_norm3, x, {x, x.select(0, 1), x.select(0, 2)});
    Tensor z = leaf({3, 4}, 0.5);
    expect_sum(rms_norm2, z, {z, z.select(0, 0)});
}

TEST_F(JointTargetsTest, OneTensorAsQueriesKeysAndValues) {
    Tensor x = leaf({1, 5, 2, 3}, 0);
    expect_sum(attention3, x, {x, x, x});
}

TEST_F(JointTargetsTest, SlicesOfOneTensorAsQueriesKeysAndValues) {
    Tensor x = leaf({2, 5, 6, 3}, 0);
    const std::vector<Tensor> parts = x.split(2, 2);
    expect_sum(attention3, x, parts);
}

TEST_F(JointTargetsTest, KeysThatAreAlsoValues) {
    Tensor q = leaf({1, 4, 2, 3}, 0).requires_grad_(false);
    Tensor memory = leaf({1, 6, 1, 3}, 1);
    expect_sum([&](const std::vector<Tensor>& p) { return attention(q, p[0], p[1], false); }, memory, {memory, memory});
}

TEST_F(JointTargetsTest, AnyNumberOfViews) {
    Tensor x = leaf({3, 4}, 0);
    std::vector<Tensor> rows;
    for (int i = 0; i < 8; ++i) rows.push_back(x.select(0, i % 3));
    expect_sum([](const std::vector<Tensor>& p) { return toy::squares(p); }, x, rows);
}

TEST_F(JointTargetsTest, PackedAttentionEqualsThatOfItsParts) {
    Tensor packed = leaf({2, 7, 4 * 3 + 2 * 2 * 3}, 0);
    const auto whole = [](const std::vector<Tensor>& x) { return attention_packed(x[0], 4, 2, true); };
    const auto parts = [](const std::vector<Tensor>& x) {
        const std::vector<Tensor> qkv = x[0].reshape({2, 7, 8, 3}).split({4, 2, 2}, 2);
        return attention(qkv[0], qkv[1], qkv[2], true).reshape({2, 7, 12});
    };
    EXPECT_EQ(whole({packed}).to_vector<double>(), parts({packed}).to_vector<double>());
    differentiate(whole, {packed});
    const std::vector<double> want = packed.grad().to_vector<double>();
    packed.zero_grad();
    differentiate(parts, {packed});
    EXPECT_EQ(packed.grad().to_vector<double>(), want);
}

}  // namespace joint_targets_test
}  // namespace headroom
