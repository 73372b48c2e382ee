#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom {
namespace tape_test {

using headroom::test::throws;

class TapeTest : public ::testing::Test {
  protected:
    Tensor leaf(std::vector<float> values) {
        const auto count = static_cast<std::int64_t>(values.size());
        return context.from_host(values, {count}).requires_grad_();
    }
    PathId path(const char* text) { return context.memory().intern(text); }
    std::size_t allocated() { return context.memory().statistics().allocated; }

    Context context = Context::cpu({.threads = 1});
};

TEST_F(TapeTest, DifferentiatesAChain) {
    Tensor x = leaf({1, 2, 3});
    Tensor loss = toy::total(toy::mul(toy::mul(x, x), x));
    EXPECT_EQ(loss.item(), 36.0);
    backward(loss);
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 12, 27}));
    EXPECT_EQ(context.tape().size(), 0u);
}

TEST_F(TapeTest, SumsGradientsOverCallsUntilTheyAreCleared) {
    Tensor x = leaf({1, 2});
    backward(toy::total(toy::mul(x, x)));
    backward(toy::total(toy::mul(x, x)), 10.0);
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{22, 44}));
    x.zero_grad();
    EXPECT_FALSE(x.grad().defined());
}

TEST_F(TapeTest, SavesAnyNumberOfArrays) {
    std::vector<Tensor> leaves;
    for (int i = 1; i <= 8; ++i) leaves.push_back(leaf({static_cast<float>(i)}));
    context.policy("again", recompute_all());
    context.module_path("again");
    for (const char* where : {"", "again"}) {
        Tensor loss;
        {
            RegionScope region(context, path(where));
            std::vector<Tensor> squares;
            for (const Tensor& x : leaves) squares.push_back(toy::mul(x, x));
            loss = toy::total(toy::squares(std::move(squares)));
        }
        backward(loss);
        for (const Tensor& x : leaves) {
            EXPECT_EQ(x.grad().item(), 4 * std::pow(x.item(), 3));
            x.zero_grad();
        }
    }
}

TEST_F(TapeTest, TakesItsSeedFromMemory) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        Tensor x = leaf({1, 2});
        const Array numbers = context.from_host(std::vector<double>{3, 0.25, 5}, {3}).array();
        Array seed = numbers;
        seed.geometry = Geometry::contiguous({});
        seed.geometry.offset = 1;
        if (dtype == Dtype::f32) seed = context.scalar(0.25).array();
        Tensor y = toy::total(toy::mul(x, x));
        y.retain_grad();
        context.tape().backward(y, seed);
        EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0.5f, 1}));
        EXPECT_EQ(y.grad().item(), 0.25);
        context.tape().backward(toy::total(toy::mul(x, x)), seed);
        EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 2}));
        EXPECT_THROW(context.tape().backward(toy::total(toy::mul(x, x)), numbers), ShapeError);
        context.tape().clear();
    }
}

TEST_F(TapeTest, DifferentiatesSeveralLossesAtOnce) {
    Tensor x = leaf({1, 2});
    Tensor y = toy::mul(x, x);
    const std::vector<Tensor> losses{toy::total(y), toy::total(toy::mul(y, x))};
    backward(losses, {1.0, 0.5});
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2 + 1.5f, 4 + 6}));
}

TEST_F(TapeTest, AccumulatesWhenAValueEntersAnOpTwice) {
    Tensor x = leaf({2});
    Tensor y = toy::add(x, x);
    backward(toy::total(toy::add(y, y)));
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4}));
}

TEST_F(TapeTest, ZeroFillsTheRestOfAPartialView) {
    Tensor x = leaf({1, 2, 3, 4});
    backward(toy::total(toy::mul(x.slice(0, 1, 3), x.slice(0, 2, 4))));
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 3, 2 + 4, 3}));
}

TEST_F(TapeTest, TakesOverStorageThatNobodyElseNeeds) {
    Tensor x = leaf({1, 2});
    Tensor y = toy::mul(x, x);
    const std::byte* storage = y.array().buffer.data();
    y = toy::tanh(std::move(y));
    EXPECT_EQ(y.array().buffer.data(), storage);
    Tensor kept = toy::mul(x, x);
    Tensor z = toy::tanh(kept);
    EXPECT_NE(z.array().buffer.data(), kept.array().buffer.data());
}

TEST_F(TapeTest, DoesNotTakeOverWhatBackwardNeeds) {
    Tensor x = leaf({1, 2});
    Tensor y = toy::tanh(x);  // saved
    const std::vector<float> before = y.to_vector<float>();
    const std::byte* storage = y.array().buffer.data();
    Tensor z = toy::add(std::move(y), x);
    EXPECT_NE(z.array().buffer.data(), storage);
    backward(toy::total(std::move(z)));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(x.grad().to_vector<float>()[i], 2 - before[i] * before[i], 1e-6);
}

TEST_F(TapeTest, FreesAForwardThatIsDropped) {
    Tensor x = leaf({1, 2});
    const std::size_t before = allocated();
    {
        Tensor y = toy::mul(x, toy::tanh(x));
        EXPECT_GT(context.tape().size(), 0u);
    }
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_EQ(allocated(), before);
}

TEST_F(TapeTest, RecordsNothingUnderNoGrad) {
    Tensor x = leaf({1, 2});
    NoGradGuard no_grad(context);
    Tensor y = toy::mul(x, x);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_THROW(backward(toy::total(y)), Error);
}

TEST_F(TapeTest, LeavesEverythingAsItWasWhenAnOpThrows) {
    Tensor x = leaf({1, 2});
    Tensor y = toy::mul(x, x);
    const std::size_t before = allocated();
    const std::size_t records = context.tape().size();
    EXPECT_THROW(toy::add(y, leaf({1, 2, 3})), ShapeError);
    EXPECT_EQ(allocated(), before);
    EXPECT_EQ(context.tape().size(), records);
    backward(toy::total(y));
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST_F(TapeTest, ClearsWhenBackwardThrows) {
    Tensor x = leaf({1, 2});
    const std::size_t before = allocated();
    toy::Faults faults{.backward = 0};
    EXPECT_THROW(backward(toy::total(toy::mul(toy::fragile(x, faults), x))), Error);
    EXPECT_EQ(context.tape().size(), 0u);
    x.zero_grad();
    EXPECT_EQ(allocated(), before);
}

TEST_F(TapeTest, SurvivorsBecomeLeavesIfTheyAreMadeSo) {
    Tensor x = leaf({1, 2});
    Tensor y = toy::mul(x, x);
    Tensor loss = toy::total(y);
    backward(loss);
    y.requires_grad_();
    backward(toy::total(toy::mul(y, y)));
    EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{2, 8}));
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST_F(TapeTest, RefusesToPassASurvivorOfAnEarlierBackward) {
    Tensor x = leaf({1, 2}), w = leaf({3, 4});
    Tensor y;
    {
        RegionScope region(context, path("encoder"));
        y = toy::mul(x, x);
    }
    backward(toy::total(y));
    EXPECT_EQ(toy::mul(y, y).to_vector<float>(), (std::vector<float>{1, 16})) << "it can be computed with";
    EXPECT_THAT([&] { backward(toy::total(toy::mul(y, w))); },
                throws<Error>("reaches the output of toy_mul in encoder", "detach()"));
    EXPECT_EQ(context.tape().size(), 0u);
    w.zero_grad();
    backward(toy::total(toy::mul(y.detach(), w)));
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 4}));
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST_F(TapeTest, SaysOfASecondBackwardThatTheTapeIsConsumed) {
    Tensor x = leaf({1, 2});
    Tensor loss = toy::total(toy::mul(x, x)), other = toy::total(x);
    backward(loss);
    for (const Tensor& again : {loss, other}) {
        EXPECT_THAT([&] { backward(again); }, throws<Error>("the output of toy_total", "an earlier backward consumed"));
    }
    EXPECT_THAT([&] { backward(toy::total(x.detach())); }, throws<Error>("does not depend on anything"));
}

TEST_F(TapeTest, APolicyMustFitAModule) {
    const auto step = [&] {
        Tensor x = leaf({1, 2});
        Tensor y;
        {
            RegionScope region(context, path("blocks.0"));
            y = toy::mul(x, x);
        }
        backward(toy::total(y));
    };
    context.policy("blocks.*", recompute_all());
    step();
    context.policy("block.*", recompute_all());
    context.module_path("");  // the model itself, which no name leads to
    EXPECT_THAT(step, throws<Error>("policy: the pattern \"block.*\" matches no module; build modules"));
    for (const char* module : {"block", "tokens"}) context.module_path(module);
    EXPECT_THAT(step, throws<Error>("matches no module; the nearest are block, tokens"));
    for (const char* module : {"blocks.0", "blocks.1"}) context.module_path(module);
    EXPECT_THAT(step, throws<Error>("matches no module; the nearest are block, blocks.0, blocks.1"));
    context.module_path("block.0");
    step();
}

TEST_F(TapeTest, AnErrorNamesTheModule) {
    Tensor x = leaf({1, 2});
    const RegionScope region(context, path("blocks.3.mlp"));
    EXPECT_THAT([&] { toy::add(x, leaf({1, 2, 3})); }, throws<ShapeError>(", in blocks.3.mlp"));
}

TEST_F(TapeTest, RetainsTheGradientOfAnIntermediate) {
    Tensor x = leaf({1, 2});
    Tensor y = toy::mul(x, x);
    y.retain_grad();
    backward(toy::total(toy::mul(y, y)));
    EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{2, 8}));
}

TEST_F(TapeTest, RefusesABackwardWhoseSavedValuesChanged) {
    Tensor x = leaf({1, 2});
    Tensor loss = toy::total(toy::mul(x, x));
    x.array().buffer.bump_version();
    EXPECT_THROW(backward(loss), Error);
}

TEST_F(TapeTest, RefusesALossOfSeveralElements) {
    Tensor x = leaf({1, 2});
    EXPECT_THROW(backward(toy::mul(x, x)), ShapeError);
}

/// What was recorded beside it can be differentiated afterwards.
TEST_F(TapeTest, ARefusedBackwardLeavesTheOthersAlone) {
    Context elsewhere = Context::cpu({.threads = 1});
    Tensor x = leaf({1, 2});
    const Tensor y = toy::mul(x, x), loss = toy::total(y), constant = toy::total(x.detach());
    const Tensor other = toy::total(elsewhere.from_host(std::vector<float>{1}, {1}).requires_grad_());
    const std::size_t records = context.tape().size(), bytes = allocated();
    EXPECT_THROW(backward(y), ShapeError);
    EXPECT_THROW(backward(constant), Error);
    EXPECT_THROW(backward({loss, loss}, {1.0}), Error);
    EXPECT_THROW(backward({loss, other}, {1.0, 1.0}), Error);
    EXPECT_EQ(context.tape().size(), records);
    EXPECT_EQ(allocated(), bytes);
    EXPECT_FALSE(x.grad().defined());
    backward(loss);
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4}));
    backward(other);  // nor is the other context's tape touched
}

TEST_F(TapeTest, KeepsOnlyBordersOfARecomputedRegion) {
    context.policy("block", recompute_all());
    Tensor x = leaf(std::vector<float>(1000, 0.5f));
    const std::size_t before = allocated();
    Tensor y;
    {
        RegionScope scope(context, path("block"));
        y = toy::tanh(toy::noisy(toy::mul(toy::tanh(x), x)));
    }
    EXPECT_EQ(allocated() - before, 4032u);  // 1000 floats, rounded to 64 bytes
    Tensor loss = toy::total(y);
    y.reset();
    backward(loss);
    EXPECT_EQ(context.tape().statistics().replayed, 3u);  // the last op's output was kept as the region's result
}

TEST_F(TapeTest, AReplayThatWantsWhatAnOpSavedComputesNoOutput) {
    context.policy("region", recompute_all());
    for (const bool output_saved : {false, true}) {
        Tensor x = leaf({1, 2});
        std::int64_t outputs = 0;
        Tensor loss;
        {
            const RegionScope region(context, path("region"));
            const Tensor y = toy::sine(x, outputs);
            loss = toy::total(output_saved ? toy::mul(y, y) : toy::add(y, y));
        }
        EXPECT_EQ(outputs, 1);
        backward(loss);
        EXPECT_EQ(outputs, output_saved ? 2 : 1);
        for (std::size_t i = 0; i < 2; ++i) {
            const float value = static_cast<float>(i + 1);
            const float want = output_saved ? std::sin(2 * value) : 2 * std::cos(value);
            EXPECT_NEAR(x.grad().to_vector<float>()[i], want, 4 * 0x1p-23);
        }
    }
}

TEST_F(TapeTest, NothingIsSavedThatNoBackwardWillWant) {
    std::int64_t outputs = 0;
    const Tensor x = leaf({1, 2}), constant = leaf({1, 2}).requires_grad_(false);
    const auto kept = [&](const Tensor& input) {
        const std::size_t before = allocated();
        const Tensor y = toy::sine(input, outputs);
        return allocated() - before;
    };
    const std::size_t one = kept(constant);
    EXPECT_EQ(kept(x), 2 * one);
    const NoGradGuard no_grad(context);
    EXPECT_EQ(kept(x), one);
}

TEST_F(TapeTest, KeepInsideRecomputeKeeps) {
    context.policy("block", recompute_all());
    context.policy("block.inner", keep_all());
    Tensor x = leaf(std::vector<float>(1000, 0.5f));
    Tensor loss;
    {
        RegionScope scope(context, path("block"));
        Tensor h = toy::tanh(x);
        {
            RegionScope inner(context, path("block.inner"));
            h = toy::tanh(toy::tanh(toy::tanh(h)));
        }
        loss = toy::total(toy::mul(h, h));
    }
    backward(loss);
    // Of the four tanh the inner first two were kept; the inner last one left its region, so the outer decides.
    EXPECT_EQ(context.tape().statistics().replayed, 2u);
}

TEST(PathPattern, MatchesSegments) {
    EXPECT_TRUE(path_matches("blocks.*", "blocks.3"));
    EXPECT_FALSE(path_matches("blocks.*", "blocks.3.mlp"));
    EXPECT_FALSE(path_matches("blocks.*", "blocks"));
    EXPECT_TRUE(path_matches("blocks.**", "blocks.3.mlp"));
    EXPECT_TRUE(path_matches("**.mlp", "blocks.3.mlp"));
    EXPECT_TRUE(path_matches("**", ""));
    EXPECT_TRUE(path_matches("a.**.z", "a.z"));
    EXPECT_FALSE(path_matches("a.**.z", "a.b"));
    EXPECT_TRUE(path_matches("", ""));
    EXPECT_FALSE(path_matches("", "a"));
}

}  // namespace tape_test
}  // namespace headroom
