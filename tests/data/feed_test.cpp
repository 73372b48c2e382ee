// Where there is no GPU, a feed is `Context::from_host`.
#include <headroom/data/feed.hpp>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace feed_test {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

TEST(Feed, GivesABatchAsTensors) {
    Context context = Context::cpu({.threads = 1});
    Feed feed(context);
    Floats x{1, 2, 3, 4, 5, 6};
    const auto [a, b] = feed.upload({{x, {2, 3}}, {Ints{7, 8}, {2}}});
    const auto [c] = feed.upload({{std::span<const float>(x).first(1), {}}});
    x.assign(6, 0);
    EXPECT_EQ(a.shape(), (Shape{2, 3}));
    EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(b.dtype(), Dtype::i32);
    EXPECT_EQ(b.to_vector<std::int32_t>(), (Ints{7, 8}));
    EXPECT_EQ(c.item(), 1.0);
}

TEST(Feed, KeepsNothingOnACpu) {
    Context context = Context::cpu({.threads = 1});
    Feed feed(context);
    for (int i = 0; i < 3; ++i) feed.upload({{Floats(1000), {1000}}, {Ints(10), {10}}});
    EXPECT_EQ(context.memory().statistics().allocated, 0u);
}

TEST(Feed, RefusesValuesThatDoNotFillTheirShape) {
    Context context = Context::cpu({.threads = 1});
    Feed feed(context);
    try {
        feed.upload({{Floats(3), {1}}, {Floats(5), {2, 3}}});
        FAIL() << "three values were taken for one";
    } catch (const ShapeError& error) {
        EXPECT_STREQ(error.what(), "feed: 3 values do not fill the shape [1]");
    }
}

/// Of a GPU: two batches, however many come, each room as large as the largest one.
TEST(Feed, ARehearsalOfAGpuKnowsItsMemory) {
    Context context = Context::dry(Profile::gpu(1 << 30));
    Feed feed(context);
    std::size_t after_two = 0;
    for (const std::int64_t rows : {10, 10, 4, 10, 1, 10}) {
        feed.upload({{Floats(static_cast<std::size_t>(rows) * 512), {rows, 512}}, {Ints(512), {512}}});
        if (after_two == 0 && context.memory().statistics().allocations == 4) {
            after_two = context.memory().statistics().allocated;
        }
    }
    EXPECT_EQ(context.memory().statistics().allocations, 4u);
    EXPECT_EQ(after_two, 2 * (10 + 1) * 512 * sizeof(float));
    EXPECT_EQ(context.memory().statistics().peak_allocated, after_two);
}

}  // namespace feed_test
}  // namespace headroom::data
