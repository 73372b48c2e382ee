// Ops that work on rows in chunks, on a GPU that is rehearsed: how many there are, from the scratch of their products.
#include <algorithm>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/feed_forward.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/matmul/internal/gemm.hpp>

namespace headroom {
namespace chunks_test {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Products are counted since the last look.
class ChunksOfGpt2 : public ::testing::TestWithParam<std::size_t> {
  protected:
    ChunksOfGpt2() : context(Context::dry(profile())) { context.memory().start_history(1 << 16); }

    static Profile profile() {
        Profile profile = Profile::gpu(std::size_t{141} << 30);
        profile.compute.scratch_budget = GetParam();
        return profile;
    }
    Tensor leaf(const Shape& shape, Dtype dtype = Dtype::bf16) {
        return context.from_array(context.exec().empty(shape, dtype, Category::inputs));
    }
    static bool is_scratch(const memory::MemoryEvent& event) {
        return event.category == static_cast<memory::CategoryId>(Category::workspace);
    }
    int products() {
        const memory::MemorySnapshot snapshot = context.memory().snapshot();
        const auto& events = snapshot.events;
        const auto count = std::count_if(events.begin(), events.end(), [](const memory::MemoryEvent& event) {
            return event.kind == memory::MemoryEvent::Kind::allocate && is_scratch(event) &&
                   event.requested >= kernels::kGemmWorkspace && event.requested < kernels::kGemmWorkspace + kMiB / 2;
        });
        return static_cast<int>(count) - std::exchange(seen, static_cast<int>(count));
    }
    bool took_scratch(std::int64_t bytes) {
        const memory::MemorySnapshot snapshot = context.memory().snapshot();
        return std::any_of(snapshot.events.begin(), snapshot.events.end(), [&](const memory::MemoryEvent& event) {
            return is_scratch(event) && event.requested == static_cast<std::size_t>(bytes);
        });
    }
    /// Of what a budget in MiB gives.
    template <class T>
    T by_budget(T none, T usual, T larger) const {
        return GetParam() == 0 ? none : GetParam() == 256 * kMiB ? usual : larger;
    }

    Context context;
    int seen = 0;
};

INSTANTIATE_TEST_SUITE_P(Budgets, ChunksOfGpt2, ::testing::Values(0, 256 * kMiB, 402 * kMiB),
                         [](const auto& info) { return std::to_string(info.param / kMiB) + "_MiB"; });

TEST_P(ChunksOfGpt2, OfLogitsAreAsLargeAsTheScratchBudget) {
    constexpr std::int64_t classes = 50257, line = 50304;  // elements of a row
    const Tensor x = leaf({64, 1024, 768}).requires_grad_(), weight = leaf({classes, 768}).requires_grad_();
    const Tensor targets = leaf({64, 1024}, Dtype::i32);
    const int chunks = by_budget(512, 26, 16);
    const Tensor loss = linear_cross_entropy(x, weight, targets).sum();
    EXPECT_TRUE(took_scratch(by_budget(128, 2560, 4096) * line * 2));
    EXPECT_EQ(products(), GetParam() == 0 ? chunks : 3 * chunks);
    backward(loss);
    EXPECT_EQ(products(), GetParam() == 0 ? 3 * chunks : 0) << "forward has kept the gradients";
}

TEST_P(ChunksOfGpt2, OfLogitsHaveNoProductsForWhatNeedsNoGradient) {
    const Tensor x = leaf({65536, 768}).requires_grad_(), weight = leaf({50257, 768});
    const Tensor targets = leaf({65536}, Dtype::i32);
    const int chunks = by_budget(512, 26, 16);
    const Tensor loss = linear_cross_entropy(x, weight, targets).sum();
    EXPECT_EQ(products(), GetParam() == 0 ? chunks : 2 * chunks);
    backward(loss);
    EXPECT_EQ(products(), GetParam() == 0 ? 2 * chunks : 0);
    const NoGradGuard no_grad(context);
    linear_cross_entropy(x, weight, targets);
    EXPECT_EQ(products(), chunks);
}

TEST_P(ChunksOfGpt2, OfLogitsInARecomputedRegionAreComputedTwice) {
    const Tensor x = leaf({65536, 768}).requires_grad_(), weight = leaf({50257, 768}).requires_grad_();
    const Tensor targets = leaf({65536}, Dtype::i32);
    context.policy("region", recompute_all());
    Tensor loss;
    {
        const RegionScope region(context, context.module_path("region"));
        loss = linear_cross_entropy(x, weight, targets).sum();
    }
    backward(loss);
    EXPECT_EQ(products(), GetParam() == 0 ? 5 * by_budget(512, 26, 16) : 6 * by_budget(512, 26, 16));
}

TEST_P(ChunksOfGpt2, OfAHiddenLayerAreAsLargeAsTheScratchBudget) {
    const Tensor x = leaf({64, 1024, 768}).requires_grad_();
    const Tensor up = leaf({3072, 768}).requires_grad_(), down = leaf({768, 3072}).requires_grad_();
    const int chunks = by_budget(6, 2, 1);
    const Tensor y = feed_forward(x, up, leaf({3072}).requires_grad_(), down, leaf({768}).requires_grad_());
    EXPECT_EQ(products(), 2 * chunks);
    const Tensor loss = sum(y);
    backward(loss);
    EXPECT_EQ(products(), 4 * chunks);
}

}  // namespace chunks_test
}  // namespace headroom
