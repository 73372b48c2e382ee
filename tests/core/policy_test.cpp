// Policies as rules: which op of which call they name, what they say of it, and how it is written.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace policy_test {

/// A module "net" that is called twice, with "net.inner" inside of each call, and an op behind both.
class TwoCalls {
  public:
    explicit TwoCalls(Context& context)
        : context_(context),
          net_(context.module_path("net")),
          inner_(context.module_path("net.inner")),
          x_(context.from_host(std::vector<float>(64, 0.5f), {8, 8}).requires_grad_()) {}

    void train() {
        const Tensor loss = sum(call(call(x_)));
        backward(loss);
    }
    std::vector<float> gradient() const { return x_.grad().to_vector<float>(); }

  private:
    Tensor call(const Tensor& x) {
        const RegionScope region(context_, net_);
        const Tensor before = gelu(matmul(x, x_));
        Tensor inside;
        {
            const RegionScope inner(context_, inner_);
            inside = gelu(tanh(before));
        }
        return gelu(inside) * before;
    }

    Context& context_;
    PathId net_, inner_;
    Tensor x_;
};

TEST(Policy, OpsHaveNamesThatStayWhateverIsRecomputedOrCast) {
    const std::vector<std::string> expected{"net 0 0 matmul",          "net 0 1 gelu_tanh", "net.inner 0 0 tanh",
                                            "net.inner 0 1 gelu_tanh", "net 0 2 gelu_tanh", "net 0 3 mul",
                                            "net 1 0 matmul",          "net 1 1 gelu_tanh", "net.inner 1 0 tanh",
                                            "net.inner 1 1 gelu_tanh", "net 1 2 gelu_tanh", "net 1 3 mul"};
    for (const bool half : {false, true}) {
        for (const Answer answer : {Answer::inherit, Answer::recompute}) {
            Context context = Context::cpu({.threads = 1});
            TwoCalls net(context);
            std::vector<std::string> seen;
            context.policy("**", [&](const Candidate& op) {
                const std::string name =
                    std::string(op.path) + " " + std::to_string(op.call) + " " + std::to_string(op.ordinal);
                // Inner regions ask the outer ones' policies as well, and closing ones once more.
                const std::string whole = name + " " + op.info.name;
                if (std::string(op.info.name) != "cast" && std::find(seen.begin(), seen.end(), whole) == seen.end()) {
                    seen.push_back(whole);
                }
                return answer;
            });
            const Autocast autocast(context, half ? std::optional(Dtype::bf16) : std::nullopt);
            for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
                seen.clear();
                net.train();
                EXPECT_EQ(seen, expected) << half << ' ' << answer.choice << ' ' << micro_batch;
            }
        }
    }
}

std::uint64_t replayed(const std::string& pattern, const Policy& policy) {
    Context context = Context::cpu({.threads = 1});
    TwoCalls net(context);
    context.policy(pattern, policy);
    net.train();
    return context.tape().statistics().replayed;
}

TEST(Policy, RulesNameOneOpAmongItsLike) {
    const auto rules = [](std::vector<Rule> all) { return Policy(std::move(all)); };
    EXPECT_EQ(replayed("net", rules({{.op = "gelu_tanh", .answer = Answer::recompute}})), 6u);
    EXPECT_EQ(replayed("net", rules({{.path = "net", .op = "gelu_tanh", .answer = Answer::recompute}})), 4u);
    EXPECT_EQ(replayed("net", rules({{.path = "net", .op = "gelu_tanh", .ordinal = 1, .answer = Answer::recompute}})),
              2u);
    EXPECT_EQ(replayed("net", rules({{.path = "net", .call = 1, .ordinal = 1, .answer = Answer::recompute}})), 1u);
    EXPECT_EQ(replayed("net", rules({{.path = "net", .op = "relu", .ordinal = 1, .answer = Answer::recompute}})), 0u);
    EXPECT_EQ(replayed("net", rules({{.path = "*.inner", .op = "gelu_tanh", .answer = Answer::recompute}})), 2u);
}

/// One that is attached later goes before the earlier ones: the same pattern again, or another one that fits as well.
TEST(Policy, TheLastOneThatWasAttachedAnswers) {
    const auto replayed_by = [](const std::vector<std::pair<std::string, Policy>>& attached) {
        Context context = Context::cpu({.threads = 1});
        TwoCalls net(context);
        for (const auto& [pattern, policy] : attached) context.policy(pattern, policy);
        net.train();
        return context.tape().statistics().replayed;
    };
    const std::uint64_t all = replayed_by({{"net", recompute_all()}}), none = 0;
    ASSERT_GT(all, none);
    EXPECT_EQ(replayed_by({{"net", recompute_all()}, {"net", recompute_all()}}), all);
    EXPECT_EQ(replayed_by({{"net", keep_all()}, {"net", recompute_all()}}), all);
    EXPECT_EQ(replayed_by({{"net", recompute_all()}, {"net", keep_all()}}), none);
    EXPECT_EQ(replayed_by({{"net", recompute_all()}, {"*", keep_all()}}), none);
    EXPECT_EQ(replayed_by({{"net", recompute_all()}, {"net", keep_all()}, {"net", recompute_all()}}), all);
    // After a step, too, that has gone by the first one.
    Context context = Context::cpu({.threads = 1});
    TwoCalls net(context);
    for (const bool again : {true, false, true}) {
        context.policy("net", again ? recompute_all() : keep_all());
        const std::uint64_t before = context.tape().statistics().replayed;
        net.train();
        EXPECT_EQ(context.tape().statistics().replayed - before, again ? all : none);
    }
}

TEST(Policy, TheLastRuleThatFitsAnswers) {
    const Rule all{.op = "gelu_tanh", .answer = Answer::recompute},
        own{.path = "net", .op = "gelu_tanh", .answer = Answer::keep};
    EXPECT_EQ(replayed("net", Policy(std::vector{all, own})), 2u) << "a path behind a pattern";
    EXPECT_EQ(replayed("net", Policy(std::vector{own, all})), 6u) << "a pattern behind a path";
    const Rule none{.path = "net", .op = "gelu_tanh", .answer = Answer::inherit};
    EXPECT_EQ(replayed("net", Policy(std::vector{all, none})), 2u) << "inherit is an answer";
}

TEST(Policy, ChangesNoBit) {
    const auto gradient = [](const Policy& policy) {
        Context context = Context::cpu({.threads = 1});
        TwoCalls net(context);
        context.policy("net", policy);
        net.train();
        return net.gradient();
    };
    const std::vector<Rule> rules{{.op = "gelu_tanh", .answer = {Answer::recompute, 1}},
                                  {.path = "net", .call = 1, .answer = Answer::recompute}};
    EXPECT_EQ(gradient(Policy(rules)), gradient(inherit_all()));
}

TEST(Policy, IsWrittenAndCompared) {
    const Policy policy(std::vector<Rule>{
        {.path = "", .op = "mean", .answer = Answer::keep},
        {.path = "blocks.3.mlp", .op = "gelu_tanh", .call = 0, .ordinal = 1, .answer = {Answer::recompute, 16}}});
    EXPECT_EQ(policy.to_string(),
              "the model mean: keep\n"
              "blocks.3.mlp gelu_tanh call 0 op 1: recompute, again after 16 ops");
    EXPECT_EQ(policy, Policy(policy.rules()));
    EXPECT_EQ(keep_all().to_string(), "**: keep");
    EXPECT_EQ(recompute_cheap().to_string(), "recompute_cheap");
    EXPECT_TRUE(recompute_cheap() == recompute_cheap());
    EXPECT_FALSE(recompute_all() == recompute_cheap());
    EXPECT_FALSE(recompute_all() == keep_all());
    const Policy own = [](const Candidate&) { return Answer::keep; };
    EXPECT_FALSE(own == own) << "a function without a name may be another one";
    EXPECT_EQ(own.to_string(), "a function");
    EXPECT_THROW(Policy(Policy::Function()), Error);
}

/// A chain of one module: what `rules` say of it.
struct Chain {
    std::uint64_t replayed;
    std::size_t peak;
};

Chain run_chain(int length, const Policy& policy) {
    Context context = Context::dry({});
    const PathId path = context.module_path("chain");
    context.policy("chain", policy);
    const Tensor x = context.from_host(std::vector<float>(1 << 16, 0.5f), {1 << 16}).requires_grad_();
    Tensor y;
    {
        const RegionScope region(context, path);
        y = tanh(x);
        for (int i = 1; i < length; ++i) y = tanh(y);
        y = sum(y);
    }
    backward(y);
    return {context.tape().statistics().replayed, context.memory().statistics().peak_allocated};
}

TEST(Policy, GroupsThatNoModuleIsAreBroughtBackOneAfterTheOther) {
    constexpr int kLength = 64, kGroup = 8;
    constexpr std::size_t kBytes = (1 << 16) * sizeof(float);
    const Chain kept = run_chain(kLength, keep_all());
    const Chain whole = run_chain(kLength, recompute_all());
    // All but the last of each group, which the next group begins with.
    std::vector<Rule> rules;
    for (std::uint32_t i = 0; i < kLength; ++i) {
        if (i % kGroup != kGroup - 1) rules.push_back({.path = "chain", .ordinal = i, .answer = Answer::recompute});
    }
    const Chain groups = run_chain(kLength, Policy(rules));
    EXPECT_EQ(kept.replayed, 0u);
    EXPECT_GE(whole.peak + kBytes, kept.peak) << "the whole chain is there at once, as if it had been kept";
    EXPECT_EQ(groups.replayed, static_cast<std::uint64_t>(kLength - kLength / kGroup));
    EXPECT_LE(groups.peak, kept.peak - (kLength - 2 * kGroup - 2) * kBytes);
}

}  // namespace policy_test
}  // namespace headroom
