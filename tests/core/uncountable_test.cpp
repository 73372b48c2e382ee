// Sizes whose product can't be counted are refused wherever a shape is named, in one line that begins with the
// function.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/arrange.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/one_hot.hpp>
#include <headroom/core/ops/sampling.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace uncountable_test {

using headroom::test::throws;

TEST(Uncountable, SizesAreRefused) {
    Context context = Context::cpu({.threads = 1});
    constexpr std::int64_t many = std::int64_t{1} << 40, most = std::numeric_limits<std::int64_t>::max();
    const Tensor x = ones(context, {1, 1}), empty = ones(context, {0, 4});
    const auto uncountable = [](const char* op) {
        return throws<ShapeError>(std::string(op) + ": ", "too many elements");
    };
    EXPECT_THAT([&] { zeros(context, {many, many}); }, uncountable("zeros"));
    EXPECT_THAT([&] { ones(context, {many, many}); }, uncountable("ones"));
    EXPECT_THAT([&] { full(context, {many, many}, 1); }, uncountable("full"));
    EXPECT_THAT([&] { zeros(context, {0, many, many}); }, uncountable("zeros"));
    EXPECT_THAT([&] { zeros(context, {many, many, 0}); }, uncountable("zeros"));
    EXPECT_THAT([&] { randn(context, {many, many}); }, uncountable("randn"));
    EXPECT_THAT([&] { rand(context, {most}); }, uncountable("rand"));
    EXPECT_THAT([&] { randint(context, 0, 2, {most, 2}); }, uncountable("randint"));
    EXPECT_THAT([&] { randperm(context, most); }, throws<Error>("randperm: ", fmt::to_string(most)));
    EXPECT_THAT([&] { causal_mask(context, many, many); }, uncountable("causal_mask"));
    EXPECT_THAT([&] { linspace(context, 0, 1, most); }, uncountable("linspace"));
    EXPECT_THAT([&] { arange(context, 0, 4e18); }, throws<Error>("arange: ", "too many elements"));
    for (const double stop : {1e30, 1e300, -1e300, std::nan("")}) {
        EXPECT_THAT([&] { arange(context, 0, stop); }, throws<Error>("arange: ", "can't go from 0 to"));
    }
    EXPECT_THAT([&] { expand(x, {many, many}); }, uncountable("expand"));
    EXPECT_THAT([&] { repeat(x, {many, many}); }, uncountable("repeat"));
    EXPECT_THAT([&] { repeat(empty, {1, most}); }, uncountable("repeat"));
    EXPECT_THAT([&] { one_hot(ones(context, {2}, Dtype::i64), most); }, uncountable("one_hot"));
    EXPECT_THAT([&] { multinomial(ones(context, {2, 3}), most, true); }, uncountable("multinomial"));
    EXPECT_THAT([&] { x.reshape({many, many}); }, uncountable("reshape"));
    EXPECT_THAT([&] { empty.reshape({std::int64_t{1} << 32, std::int64_t{1} << 32}); }, uncountable("reshape"));
    EXPECT_THAT([&] { empty.reshape({many, many, -1}); }, uncountable("reshape"));
    EXPECT_THAT(
        [&] {
            context.from_host(std::vector<float>{}, {std::int64_t{1} << 32, std::int64_t{1} << 32});
        },
        throws<ShapeError>("from_host: ", "[4294967296, 4294967296]"));
    Parameters parameters(context);
    const auto initializer = [](Exec&, const Array&, const kernels::RandomKey&) {};
    EXPECT_THAT([&] { parameters.create("w", {many, many}, initializer); }, uncountable("parameters"));
    EXPECT_THAT([&] { parameters.create("w", {-1}, initializer); }, uncountable("parameters"));
}

}  // namespace uncountable_test
}  // namespace headroom
