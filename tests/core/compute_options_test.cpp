// What a context is told about how results are computed: its profile carries it, and a rehearsal takes the scratch.
#include <headroom/core/context.hpp>

#include <gtest/gtest.h>

#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/reduce.hpp>

namespace headroom {
namespace {

const ComputeOptions kUnusual{
    .tf32 = true, .tune = true, .deterministic = false, .own_kernels = true, .scratch_budget = 1000};

TEST(ComputeOptions, AreExactUnlessSaidOtherwise) {
    const ComputeOptions options = Context::cpu().profile().compute;
    EXPECT_EQ(options, ComputeOptions{});
    EXPECT_FALSE(options.tf32 || options.tune || options.own_kernels);
    EXPECT_TRUE(options.deterministic);
    EXPECT_EQ(options.scratch_budget, std::size_t{256} << 20);
}

TEST(ComputeOptions, AreTheRehearsalsToo) {
    const Context context = Context::cpu({.compute = kUnusual});
    EXPECT_EQ(context.profile().compute, kUnusual);
    EXPECT_EQ(Context::dry(context.profile()).profile().compute, kUnusual);
}

TEST(ComputeOptions, ATuningFileIsNotForACpu) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "tuning_of_a_cpu.txt";
    Context context = Context::cpu({.compute = {.tune = true}, .tuning_file = file});
    context.save_tuning();
    EXPECT_FALSE(std::filesystem::exists(file));
}

/// Of an attention of bf16, [8, 1024, 12 heads of 64], and its gradient, on a GPU that is rehearsed.
std::size_t peak_of_attention(const ComputeOptions& options) {
    Profile profile = Profile::gpu(std::size_t{80} << 30);
    profile.compute = options;
    Context context = Context::dry(profile);
    const Array packed = context.exec().empty({8, 1024, 3 * 12 * 64}, Dtype::bf16, Category::inputs);
    backward(sum(attention_packed(context.from_array(packed).requires_grad_(), 12, 12, true)));
    return context.memory().statistics().peak_allocated;
}

TEST(ComputeOptions, AGpuIsRehearsedWithTheScratchThatTheyAllow) {
    constexpr std::size_t scores_of_batch = 12 * 1024 * 1024 * 2, rows_of_batch = 12 * 1024 * 4;
    const std::size_t all = peak_of_attention({});  // 8 batches at once fit into 256 MiB
    EXPECT_EQ(peak_of_attention({.scratch_budget = std::size_t{1} << 30}), all);
    EXPECT_EQ(all - peak_of_attention({.scratch_budget = std::size_t{64} << 20}),
              6 * (scores_of_batch + rows_of_batch));
    EXPECT_EQ(all - peak_of_attention({.deterministic = false}), 8 * (scores_of_batch - 12 * 1024 * 64 * 4));
    EXPECT_LT(peak_of_attention({.scratch_budget = 0}), all - 8 * scores_of_batch);
}

}  // namespace
}  // namespace headroom
