// Modules: how they are made, and what an error that leaves one says.
#include <headroom/nn/module.hpp>

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/attention.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/mlp.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::nn {
namespace module_test {

using headroom::test::throws;

struct Net : Module<Net> {
    Embedding table;
    Linear out;

    explicit Net(const Path& path) : Module(path), table(path / "table", 5, 4), out(path / "out", 4, 3) {}
    Tensor forward(const Tensor& ids, const Shape& shape) const { return out(table(ids).reshape(shape)); }
};

class Modules : public ::testing::Test {
  protected:
    Tensor ids(std::vector<std::int64_t> values) {
        const auto count = static_cast<std::int64_t>(values.size());
        return context.from_host(values, {count});
    }
    Context context = Context::cpu({.threads = 1});
};

TEST_F(Modules, AreMadeOfParameters) {
    Parameters parameters(context);
    Net net(parameters);
    EXPECT_EQ(net(ids({0, 4}), Shape{2, 4}).shape(), (Shape{2, 3}));
    EXPECT_NE(parameters.find("out.weight"), nullptr);
    const Net other = std::move(net);
    EXPECT_THAT([&] { net(ids({0}), Shape{1, 4}); }, throws<Error>("module: this module was moved from"));
}

TEST_F(Modules, SayThatTheyOutliveTheirParameters) {
    auto parameters = std::make_unique<Parameters>(context);
    const Net net(*parameters);
    net(ids({0, 4}), Shape{2, 4});
    parameters.reset();
    EXPECT_THAT([&] { net(ids({0, 4}), Shape{2, 4}); }, throws<Error>("module: the module outlived its Parameters"));
    EXPECT_THAT([&] { net.training(); }, throws<Error>("module: the module outlived its Parameters"));
}

TEST_F(Modules, AreNamedByErrorsOnceTheInnermost) {
    Parameters parameters(context, {.name = "critic"});
    Net net(parameters);
    EXPECT_THAT(
        [&] {
            net(ids({0, 7}), Shape{2, 4});
        },
        throws<ShapeError>("index 7 at position 1 is outside of [0, 5), in critic.table"));
    EXPECT_THAT(
        [&] {
            net(ids({0, 1}), Shape{4, 2});
        },
        throws<ShapeError>("linear: x [4, 2]", "[3, 4], in critic.out"));
    EXPECT_THAT([&] { net(ids({0, 1}), Shape{3, 3}); }, throws<ShapeError>("reshape: ", "has 9, in critic"));
    EXPECT_THAT([&] { sqrt(ids({1})); }, throws<DtypeError>("use cast()"));
}

TEST_F(Modules, DoNotAddTheirNameToOutOfMemory) {
    Context small = Context::cpu({.threads = 1, .memory_limit = 4 << 20});
    Parameters parameters(small);
    const Net net(parameters);
    std::string text;
    try {
        const Tensor many = small.from_host(std::vector<std::int64_t>(400'000), {400'000});
        net(many, Shape{400'000, 4});
    } catch (const OutOfMemory& error) {
        text = error.what();
    }
    EXPECT_THAT(text, ::testing::HasSubstr("for activations of table"));
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(", in table")));
}

TEST_F(Modules, NeedSizesInitializersAndCachesThatFit) {
    Parameters parameters(context);
    const Path root = parameters;
    EXPECT_THAT([&] { Linear(root / "bad", -1, 3); }, throws<ShapeError>("[3, -1]", "\"bad.weight\"", "negative size"));
    EXPECT_THAT([&] { root.parameter("empty", {2}, nullptr); }, throws<Error>("\"empty\" has no initializer"));
    const Gpt gpt(root, {.vocabulary = 5, .block = 4, .layers = 2, .heads = 1, .width = 4});
    std::vector<KeyValue> caches(1);
    const NoGradGuard no_grad(context);
    EXPECT_THAT([&] { gpt(ids({1, 2}).reshape({1, 2}), &caches); }, throws<Error>("gpt: got 1 caches for 2 layers"));
    EXPECT_THAT([&] { gpt(Tensor()); }, throws<Error>("undefined"));
    EXPECT_THAT([&] { gpt.loss(Tensor(), Tensor()); }, throws<Error>("undefined"));
}

/// Else a model without a hidden layer, or of width 0, computes nothing without a word.
TEST_F(Modules, RefuseASizeThatWasForgotten) {
    Parameters parameters(context);
    const Path root = parameters;
    EXPECT_THAT([&] { Mlp(root / "mlp", {.width = 4}); },
                throws<ShapeError>("mlp: width and hidden must be at least 1, got 4 and 0"));
    EXPECT_THAT([&] { SelfAttention(root / "self", {.heads = 2}); },
                throws<ShapeError>("attention: the width must be at least 1, got 0"));
    EXPECT_THAT([&] { CrossAttention(root / "cross", {.heads = 2}); },
                throws<ShapeError>("attention: the width must be at least 1, got 0"));
}

/// As PyTorch's.
TEST_F(Modules, ALinearLayerOfNothingGivesZeros) {
    Parameters parameters(context);
    const Linear layer(Path(parameters) / "layer", 0, 3);
    EXPECT_EQ(layer(zeros(context, {2, 0})).to_vector<float>(), std::vector<float>(6, 0.0f));
}

}  // namespace module_test
}  // namespace headroom::nn
