// What a GPT computes: cached and whole, sampled, frozen, tied, in training and in evaluation.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::nn {
namespace gpt_test {

using headroom::test::throws;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kBlock = 12, kVocabulary = 17, kWidth = 32, kLayers = 2;

GptOptions options(double dropout = 0) {
    return {
        .vocabulary = kVocabulary, .block = kBlock, .layers = kLayers, .heads = 4, .width = kWidth, .dropout = dropout};
}

Tokens some_tokens(std::int64_t count, std::int64_t shift = 0) {
    Tokens tokens;
    for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i + shift) % 13));
    return tokens;
}

struct Trained {
    explicit Trained(std::uint64_t seed, Dtype dtype = Dtype::f32, double dropout = 0)
        : context(Context::cpu({.threads = 2, .seed = seed})),
          parameters(context, {.dtype = dtype}),
          model(Path(parameters), options(dropout)) {}

    Tensor ids(const Tokens& tokens, std::int64_t rows = 1) {
        return context.from_host(tokens, {rows, static_cast<std::int64_t>(tokens.size()) / rows});
    }
    Loss loss() { return model.loss(ids(some_tokens(2 * kBlock), 2), ids(some_tokens(2 * kBlock, 5), 2)); }

    Context context;
    Parameters parameters;
    Gpt model;
};

class GptInDtype : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, GptInDtype, ::testing::Values(Dtype::f32, Dtype::f64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(GptInDtype, ForwardWithACacheEqualsTheWholeForward) {
    Trained gpt(3, GetParam());
    const NoGradGuard no_grad(gpt.context);
    const Tokens tokens = some_tokens(2 * kBlock);
    const Tensor ids = gpt.ids(tokens, 2);
    const std::vector<double> whole = gpt.model(ids).to_vector<double>();
    double largest = 0;
    for (const double logit : whole) largest = std::max(largest, std::abs(logit));
    // Both ways sum the same terms in another order: each of some 10 ops per block errs by at most its length times
    // epsilon.
    const double bound = 10 * kLayers * 4 * kWidth * epsilon(GetParam()) * largest;
    std::vector<KeyValue> caches = gpt.model.caches();
    std::int64_t seen = 0;
    for (const std::int64_t part : {5, 1, 1, 3, 2}) {
        const Tensor fresh = ids.slice(1, seen, seen + part).contiguous();
        const std::vector<double> logits = gpt.model(fresh, &caches).to_vector<double>();
        for (std::int64_t row = 0; row < 2; ++row) {
            for (std::int64_t i = 0; i < part * kVocabulary; ++i) {
                const auto want = static_cast<std::size_t>((row * kBlock + seen) * kVocabulary + i);
                ASSERT_NEAR(logits[static_cast<std::size_t>(row * part * kVocabulary + i)], whole[want], bound) << seen;
            }
        }
        seen += part;
    }
    ASSERT_EQ(seen, kBlock);
    EXPECT_THAT([&] { gpt.model(gpt.ids({1, 2}, 2), &caches); }, throws<ShapeError>("13 positions", "block of 12"));
}

TEST(Gpt, SamplingIsDecidedByTheSeedAndTheRandomPosition) {
    const SamplingOptions sampling{.temperature = 1.0, .top_k = 10};
    Trained a(3), b(3), other(4);
    const Tokens first = generate(a.model, {1, 2, 3}, 30, sampling);
    EXPECT_EQ(generate(b.model, {1, 2, 3}, 30, sampling), first);
    EXPECT_NE(generate(other.model, {1, 2, 3}, 30, sampling), first);
    EXPECT_NE(generate(a.model, {1, 2, 3}, 30, sampling), first);
    b.context.set_random_counter(0);
    EXPECT_EQ(generate(b.model, {1, 2, 3}, 30, sampling), first);
}

TEST(Gpt, TheLikeliestTokenIsThatOfTheWholeForward) {
    Trained gpt(3, Dtype::f64);
    const Tokens prompt{1, 2, 3, 4};
    const Tokens greedy = generate(gpt.model, prompt, kBlock - 4, {.temperature = 0});
    EXPECT_EQ(generate(gpt.model, prompt, kBlock - 4, {.temperature = 1, .top_k = 1}), greedy);
    const NoGradGuard no_grad(gpt.context);
    Tokens text = prompt;
    while (text.size() < kBlock) {
        const auto last = gpt.model(gpt.ids(text)).select(1, -1).to_vector<double>();
        text.push_back(static_cast<std::int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
    }
    EXPECT_EQ(greedy, text);
}

TEST(Gpt, TextsBecomeLongerThanTheBlock) {
    Trained gpt(3);
    for (const std::int64_t prompt : {std::int64_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock}) {
        const Tokens text = generate(gpt.model, some_tokens(prompt), 40, {});
        ASSERT_EQ(text.size(), static_cast<std::size_t>(prompt + 40));
        for (const std::int32_t token : text) EXPECT_TRUE(token >= 0 && token < kVocabulary);
    }
    Parameters parameters(gpt.context, {.name = "large"});
    const Gpt tiny(Path(parameters), {.vocabulary = 5, .block = 1, .layers = 1, .heads = 1, .width = 4});
    EXPECT_EQ(generate(tiny, {1, 2}, 9, {}).size(), 11u);
}

TEST(Gpt, SamplingRefusesBadOptionsAndLeavesTheModeAsItWas) {
    Trained gpt(3);
    const auto with = [&](Tokens prompt, std::int64_t count, SamplingOptions sampling) {
        return [&gpt, prompt, count, sampling] { generate(gpt.model, prompt, count, sampling); };
    };
    EXPECT_THAT(with({}, 1, {}), throws<Error>("prompt is empty"));
    EXPECT_THAT(with({1}, -1, {}), throws<Error>("-1"));
    EXPECT_THAT(with({1}, 1, {.temperature = -1}), throws<Error>("temperature"));
    EXPECT_THAT(with({1}, 1, {.temperature = std::nan("")}), throws<Error>("temperature"));
    EXPECT_THAT(with({1}, 1, {.top_k = -1}), throws<Error>("top_k"));
    EXPECT_THROW(with({kVocabulary}, 1, {})(), ShapeError);
    for (const bool training : {true, false}) {
        gpt.parameters.train(training);
        generate(gpt.model, {1}, 2, {});
        EXPECT_EQ(gpt.parameters.training(), training);
        EXPECT_THROW(with({kVocabulary}, 1, {})(), ShapeError);
        EXPECT_EQ(gpt.parameters.training(), training);
        EXPECT_TRUE(gpt.context.tape().recording());
    }
}

TEST(Gpt, DropoutActsInTrainingOnly) {
    Trained gpt(3, Dtype::f32, 0.2);
    const double first = gpt.loss().sum().item();
    EXPECT_NE(gpt.loss().sum().item(), first);
    gpt.parameters.train(false);
    Trained plain(3);
    EXPECT_EQ(gpt.loss().sum().item(), plain.loss().sum().item());
    EXPECT_EQ(gpt.loss().sum().item(), gpt.loss().sum().item());
    gpt.parameters.train();
    EXPECT_NE(gpt.loss().sum().item(), plain.loss().sum().item());
}

TEST(Gpt, TheTiedTableGetsTheGradientsOfBothItsUses) {
    Trained gpt(3, Dtype::f64);
    backward(gpt.loss().sum());
    const std::vector<double> gradient = gpt.model.tokens.weight.grad().to_vector<double>();
    const NoGradGuard no_grad(gpt.context);
    auto* weight = gpt.model.tokens.weight.array().view().as<double>();
    constexpr double step = 1e-5;
    for (const std::int64_t token :
         {std::int64_t{0}, std::int64_t{4}, kVocabulary - 1}) {  // the last one is never an input
        for (const std::int64_t column : {0, 13, 31}) {
            const std::int64_t at = token * kWidth + column;
            const double before = weight[at];
            weight[at] = before + step;
            const double above = gpt.loss().sum().item();
            weight[at] = before - step;
            const double below = gpt.loss().sum().item();
            weight[at] = before;
            // The rest of the series is step^2 times the third derivative; a sum over 24 positions with weights of
            // 0.02.
            EXPECT_NEAR(gradient[static_cast<std::size_t>(at)], (above - below) / (2 * step), 1e-7)
                << token << " " << column;
        }
    }
}

TEST(Gpt, FrozenPartsStayAsTheyAreAndTheRestTrains) {
    Trained gpt(3);
    EXPECT_EQ(gpt.parameters.freeze("blocks.0.**"), 12u);
    gpt.parameters.freeze("tokens.**");
    optim::AdamW optimizer(gpt.parameters);
    optim::GradientAccumulator accumulator(gpt.parameters, optimizer);
    std::vector<std::vector<float>> before;
    for (const Parameter& parameter : gpt.parameters.all()) before.push_back(parameter.tensor.to_vector<float>());
    accumulator.accumulate([&] { return gpt.loss(); });
    accumulator.step(1e-3);
    for (std::size_t i = 0; i < before.size(); ++i) {
        const Parameter& parameter = gpt.parameters.all()[i];
        const bool frozen = parameter.path.starts_with("blocks.0.") || parameter.path.starts_with("tokens.");
        EXPECT_EQ(parameter.tensor.to_vector<float>() == before[i], frozen) << parameter.path;
    }
}

/// Weights and biases of products, each once: what norms write and branches add is taken as it is.
TEST(Gpt, ABlockUnderAutocastCastsParametersAlone) {
    for (const double dropout : {0.0, 0.1}) {
        for (const Dtype stream : {Dtype::f32, Dtype::bf16}) {
            Context context = Context::cpu({.threads = 1});
            Parameters parameters(context);
            const TransformerBlock block(Path(parameters) / "block", options(dropout));
            std::vector<std::size_t> casts;  // bytes that they made
            context.policy("block", [&](const Candidate& op) {
                if (std::string_view(op.info.name) == "cast") casts.push_back(op.bytes);
                return Answer::inherit;
            });
            const Autocast autocast(context, Dtype::bf16);
            const Tensor y = block(randn(context, {2, 5, kWidth}, stream));
            EXPECT_EQ(y.dtype(), stream);
            constexpr std::size_t bias = 2 * kWidth, weight = bias * kWidth;
            EXPECT_THAT(casts, ::testing::UnorderedElementsAre(3 * weight, 3 * bias, weight, bias, 4 * weight, 4 * bias,
                                                               4 * weight, bias));
        }
    }
}

TEST(Gpt, AHalfResidualStreamIsOfTheAutocastsDtype) {
    const auto bytes_of_a_join = [](bool half_residual, std::optional<Dtype> dtype) {
        Context context = Context::cpu({.threads = 1});
        Parameters parameters(context);
        GptOptions chosen = options();
        chosen.half_residual = half_residual;
        const Gpt model(Path(parameters), chosen);
        std::vector<std::size_t> bytes;
        context.policy("blocks.*.drop1", [&](const Candidate& op) {
            bytes.push_back(op.bytes);
            return Answer::inherit;
        });
        const Autocast autocast(context, dtype);
        model(context.from_host(some_tokens(kBlock), {1, kBlock}));
        return bytes;
    };
    const std::size_t elements = kBlock * kWidth;
    for (const Dtype half : {Dtype::f16, Dtype::bf16}) {
        EXPECT_EQ(bytes_of_a_join(true, half), std::vector<std::size_t>(kLayers, 2 * elements));
        EXPECT_EQ(bytes_of_a_join(false, half), std::vector<std::size_t>(kLayers, 4 * elements));
    }
    EXPECT_EQ(bytes_of_a_join(true, std::nullopt), std::vector<std::size_t>(kLayers, 4 * elements));
}

TEST(Gpt, SizesThatCannotBeAreRefused) {
    Context context = Context::cpu({.threads = 1});
    const auto make = [&](GptOptions wrong) {
        return [&context, wrong] {
            Parameters parameters(context);
            Gpt(Path(parameters), wrong);
        };
    };
    EXPECT_THAT(make({.layers = 0}), throws<ShapeError>("at least 1"));
    EXPECT_THAT(make({.layers = 1, .heads = 5, .width = 16}), throws<ShapeError>("5 heads", "width 16"));
    Trained gpt(3);
    EXPECT_THAT([&] { gpt.model(gpt.ids(some_tokens(kBlock + 1))); },
                throws<ShapeError>("13 positions", "block of 12"));
    EXPECT_THAT([&] { gpt.model(gpt.context.from_host(some_tokens(4), {4})); }, throws<ShapeError>("[4]"));
}

}  // namespace gpt_test
}  // namespace headroom::nn
