// The recurrent network that docs/guide.md shows.
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/nn/lstm.hpp>

namespace headroom {
namespace recurrent_test {

TEST(Guide, RecurrentNetworks) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    const Tensor x = randn(context, {50, 3, 8});
    // clang-format off
    nn::Lstm net(nn::Path(parameters) / "net", {.in = 8, .width = 16, .layers = 2, .bidirectional = true,
                                                .checkpoint = kSqrtOfTime});
    const Tensor lengths = context.from_host(std::vector<std::int64_t>{50, 31, 7}, {3});
    auto [y, state] = net(x, LstmState{}, lengths);   // x [50, 3, 8] -> y [50, 3, 32], state.h and state.c [4, 3, 16]
    // clang-format on

    EXPECT_EQ(y.shape(), (Shape{50, 3, 32}));
    EXPECT_EQ(state.h.shape(), (Shape{4, 3, 16}));
    EXPECT_EQ(y.select(0, 31).select(0, 1).to_vector<float>(), std::vector<float>(32));
    EXPECT_NE(y.select(0, 30).select(0, 1).to_vector<float>(), std::vector<float>(32));
}

}  // namespace recurrent_test
}  // namespace headroom
