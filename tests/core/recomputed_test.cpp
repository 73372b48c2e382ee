// Recomputation in code: what runs again, what stays, and that no bit changes.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/recomputed.hpp>

namespace headroom {
namespace recomputed_test {

constexpr std::int64_t kWidth = 32;

struct Outcome {
    std::vector<float> gradient;
    std::uint64_t replayed;
    std::size_t peak;
};

/// Three functions in a row of 32 x 32 elements, between two products.
Outcome run(bool in_code, const std::optional<Policy>& policy = {}) {
    Context context = Context::cpu({.threads = 1});
    std::vector<float> values;
    for (int i = 0; i < kWidth * kWidth; ++i) values.push_back(static_cast<float>(i % 7) / 8.0f - 0.4f);
    const Tensor weight = context.from_host(values, {kWidth, kWidth}).requires_grad_();
    const Tensor x = context.from_host(values, {kWidth, kWidth});
    context.module_path("functions");
    if (policy) context.policy("functions", *policy);
    const auto functions = [](const Tensor& in) { return tanh(sigmoid(gelu(in))); };
    {
        Tensor loss;
        {
            const Tensor in = matmul(x, weight);
            const Tensor out =
                in_code ? recomputed(context, "functions", [&] { return functions(in); }) : functions(in);
            loss = sum(matmul(out, weight));
        }
        backward(loss);
    }
    return {weight.grad().to_vector<float>(), context.tape().statistics().replayed,
            context.memory().statistics().peak_allocated};
}

TEST(Recomputed, RunsAgainAndChangesNoBit) {
    const Outcome kept = run(false), again = run(true);
    EXPECT_EQ(kept.replayed, 0u);
    EXPECT_EQ(again.replayed, 2u) << "what leaves the region is held";
    EXPECT_EQ(again.gradient, kept.gradient);
    EXPECT_LT(again.peak, kept.peak);
}

TEST(Recomputed, APolicyOfThePathGoesBefore) { EXPECT_EQ(run(true, keep_all()).replayed, 0u); }

TEST(Recomputed, GivesWhatTheFunctionGives) {
    Context context = Context::cpu({.threads = 1});
    const std::vector<float> one{1.5f};
    Tensor x = context.from_host(one, {1});
    EXPECT_EQ(recomputed(context, "number", [] { return 7; }), 7);
    const Tensor& same = recomputed(context, "reference", [&]() -> Tensor& { return x; });
    EXPECT_EQ(&same, &x);
    recomputed(context, "nothing", [] {});
    EXPECT_EQ(context.memory().path(context.tape().path()), "") << "the region is closed";
    EXPECT_THROW(recomputed(context, "refused", []() -> int { throw Error("no"); }), Error);
    EXPECT_EQ(context.memory().path(context.tape().path()), "");
}

}  // namespace recomputed_test
}  // namespace headroom
