// Draws of tokens from logits: how often, from which, and what is refused.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/sampling.hpp>

namespace headroom::nn {
namespace sampling_test {

std::vector<int> drawn(const SamplingOptions& options, int count) {
    Context context = Context::cpu({.threads = 1, .seed = 7});
    const float log2 = std::log(2.0f);
    const Tensor logits = context.from_host(std::vector<float>{0, 2 * log2, log2, 0}, {4});
    TokenDraws draw(context, options);
    std::vector<int> found(4);
    for (int i = 0; i < count; ++i) ++found[static_cast<std::size_t>(draw(logits))];
    return found;
}

/// Probabilities of 1/8, 1/2, 1/4 and 1/8: 4096 draws deviate by sqrt(4096 p (1 - p)), below 32; six times that.
TEST(TokenDraws, FollowTheProbabilities) {
    const std::vector<int> found = drawn({}, 4096), want{512, 2048, 1024, 512};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], want[i], 192) << i;
    EXPECT_EQ(drawn({}, 4096), found) << "the same seed";
}

/// Of f32 at 1e8, neighbours are 8 apart, and so are the logits.
TEST(TokenDraws, DoNotDependOnAnOffsetThatLogitsShare) {
    std::vector<std::vector<std::int32_t>> all;
    for (const float offset : {0.0f, 1e4f, 1e8f}) {
        Context context = Context::cpu({.threads = 1, .seed = 8});
        const Tensor logits = context.from_host(std::vector<float>{offset, offset + 16, offset + 8, offset - 8}, {4});
        TokenDraws draw(context, {.temperature = 8});
        std::vector<std::int32_t>& tokens = all.emplace_back();
        for (int i = 0; i < 200; ++i) tokens.push_back(draw(logits));
        EXPECT_EQ(tokens, all.front()) << offset;
    }
    for (const std::int32_t token : {0, 1, 2, 3})
        EXPECT_GT(std::count(all.front().begin(), all.front().end(), token), 0) << token;
}

TEST(TokenDraws, TakeTheLikeliest) {
    EXPECT_EQ(drawn({.temperature = 0}, 5), (std::vector{0, 5, 0, 0}));
    EXPECT_EQ(drawn({.temperature = 1e9, .top_k = 1}, 5), (std::vector{0, 5, 0, 0}));
    const std::vector<int> two = drawn({.top_k = 2}, 300);
    EXPECT_EQ(two[0] + two[3], 0);
    EXPECT_GT(two[2], 0);
}

TEST(TokenDraws, RefuseWhatTheyCannotTake) {
    Context context = Context::cpu({.threads = 1});
    EXPECT_THROW(TokenDraws(context, {.temperature = -1}), Error);
    EXPECT_THROW(TokenDraws(context, {.temperature = std::nan("")}), Error);
    EXPECT_THROW(TokenDraws(context, {.top_k = -1}), Error);
    TokenDraws draw(context, {});
    EXPECT_THROW(draw(Tensor()), Error);
    EXPECT_THROW(draw(context.from_host(std::vector<float>{}, {0})), Error);
}

}  // namespace sampling_test
}  // namespace headroom::nn
