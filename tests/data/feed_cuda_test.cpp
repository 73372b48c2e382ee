// Batches that are copied while the GPU computes with others arrive whole, and none before its place is free. In the
// emulator under the extremes of what a GPU may do: an order that no event asks for must not matter.
#include <deque>
#include <random>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/any_order.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::data {
namespace feed_cuda_test {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

using FeedCuda = test::AnyOrder;

INSTANTIATE_TEST_SUITE_P(Orders, FeedCuda, test::any_order(), test::order_name);

using kernels::test::kRaces;

/// Of random length, whole numbers below 2^20.
Floats random_floats(std::mt19937_64& random, std::size_t most) {
    Floats values(1 + random() % most);
    for (float& value : values) value = static_cast<float>(random() % (1 << 20));
    return values;
}

/// A tensor and what must be in it.
struct Expected {
    Tensor tensor;
    Floats values;
};

void expect_all(const std::deque<Expected>& all) {
    for (const Expected& each : all) EXPECT_EQ(each.tensor.to_vector<float>(), each.values);
}

Shape length_of(const auto& values) { return {static_cast<std::int64_t>(values.size())}; }

TEST_P(FeedCuda, BatchesArriveInOrderWhateverTheirSizesAndHoweverLongTheyAreKept) {
    std::mt19937_64 random(headroom::test::random_seed());
    Context context = Context::cuda();
    set_order(context);
    Feed feed(context);
    std::deque<Expected> results, kept;
    Expected last;
    const std::int64_t waits = context.gpu()->host_waits();
    for (int step = 0; step < (kRaces ? 12 : 60); ++step) {
        Floats values = random_floats(random, kRaces ? 300 : 3000);
        const Floats weights(values.size(), static_cast<float>(step));
        const auto [x, w] = feed.upload({{values, length_of(values)}, {weights, length_of(weights)}});
        if (random() % 4 == 0) kept.push_back({x, values});
        const Tensor y = add(x, w);
        const Tensor z = mul(add(y, x), w);
        Floats want = values;
        for (float& value : want) value = (value + static_cast<float>(step) + value) * static_cast<float>(step);
        results.push_back({z, want});
        if (last.tensor.defined()) {  // the batch before is used once more, after this one was uploaded
            for (float& value : last.values) value *= 2;
            results.push_back({add(last.tensor, last.tensor), last.values});
        }
        last = random() % 2 == 0 ? Expected{x, values} : Expected{};
        while (kept.size() > random() % 4) kept.pop_front();
        values.assign(values.size(), -1.0f);
    }
    if (kernels::cuda_is_emulated()) {
        EXPECT_EQ(context.gpu()->host_waits(), waits);
    }
    expect_all(results);
    expect_all(kept);
}

/// What a feed gives back is used by kernels at once, and the other way round.
TEST_P(FeedCuda, SharesItsMemoryWithWhatTheContextComputes) {
    std::mt19937_64 random(headroom::test::random_seed());
    Context context = Context::cuda();
    set_order(context);
    std::deque<Expected> results;
    for (int round = 0; round < (kRaces ? 4 : 30); ++round) {
        Feed feed(context);
        Tensor sum = context.from_host(Floats(4096, 1.0f), {4096});
        Floats want(4096, 1.0f);
        const int steps = 1 + static_cast<int>(random() % 4);
        for (int step = 0; step < steps; ++step) {
            Floats values(4096);
            for (float& value : values) value = static_cast<float>(random() % 1000);
            for (std::size_t i = 0; i < want.size(); ++i) want[i] += values[i];
            const auto [x] = feed.upload({{values, {4096}}});
            sum = add(std::move(sum), x);
        }
        results.push_back({sum, want});
        if (results.size() > 3) results.pop_front();
    }
    expect_all(results);
}

TEST_P(FeedCuda, EndsWhileCopiesAreUnderWay) {
    std::mt19937_64 random(headroom::test::random_seed());
    for (int round = 0; round < (kRaces ? 3 : 10); ++round) {
        Context context = Context::cuda();
        set_order(context);
        Feed feed(context);
        for (std::uint64_t i = random() % 5; i > 0; --i) {
            const Floats values = random_floats(random, kRaces ? 1 << 12 : 1 << 18);
            const auto [x] = feed.upload({{values, length_of(values)}});
            add(x, x);
        }
    }
}

TEST_P(FeedCuda, GoesOnAfterItRanOutOfMemory) {
    Context context = Context::cuda(0, {.memory_limit = 16 << 20});
    set_order(context);
    Feed feed(context);
    std::deque<Expected> results;
    for (int step = 0; step < 8; ++step) {
        const Floats values(1000 + static_cast<std::size_t>(step), static_cast<float>(step));
        if (step % 3 == 1) {
            const Floats large(8 << 20);
            EXPECT_THROW(feed.upload({{values, length_of(values)}, {large, length_of(large)}}), OutOfMemory);
        }
        const auto [x, y] = feed.upload({{values, length_of(values)}, {values, length_of(values)}});
        results.push_back({add(x, y), Floats(values.size(), 2.0f * static_cast<float>(step))});
    }
    expect_all(results);
}

TEST_P(FeedCuda, KeepsItsMemory) {
    Context context = Context::cuda();
    set_order(context);
    Feed feed(context);
    std::uint64_t allocations = 0;
    for (int step = 0; step < 10; ++step) {
        feed.upload({{Floats(1000), {1000}}, {Ints(1000), {1000}}});
        if (step == 1) allocations = context.memory().statistics().allocations;
    }
    EXPECT_EQ(context.memory().statistics().allocations, allocations);
}

TEST_P(FeedCuda, IsRefusedAfterAFault) {
    Context context = Context::cuda();
    set_order(context);
    Feed feed(context);
    const auto [x] = feed.upload({{Floats{1, 2}, {2}}});
    context.gpu()->set_fault("a kernel failed");
    EXPECT_THROW(feed.upload({{Floats{3, 4}, {2}}}), DeviceError);
}

}  // namespace feed_cuda_test
}  // namespace headroom::data
