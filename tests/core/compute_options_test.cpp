// What a context is told about how results are computed: its profile carries it, and a rehearsal takes the scratch.
#include <headroom/core/context.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/scratch_budget.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace compute_options_test {

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
    const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "tuning_of_a_cpu.txt";
    Context context = Context::cpu({.compute = {.tune = true}, .tuning_file = file});
    context.save_tuning();
    EXPECT_FALSE(std::filesystem::exists(file));
}

constexpr std::size_t scores_of_batch = 12 * 1024 * 1024 * 2, rows_of_batch = 12 * 1024 * 4;

/// An attention of bf16, [8, 1024, 12 heads of 64], and its gradient.
void attention_and_gradient(Context& context) {
    const Array packed = context.exec().empty({8, 1024, 3 * 12 * 64}, Dtype::bf16, Category::inputs);
    backward(sum(attention_packed(context.from_array(packed).requires_grad_(), 12, 12, true)));
}

Profile gpu_with(const ComputeOptions& options) {
    Profile profile = Profile::gpu(std::size_t{80} << 30);
    profile.compute = options;
    return profile;
}

/// On a GPU that is rehearsed.
std::size_t peak_of(const std::function<void(Context&)>& program, const ComputeOptions& options) {
    Context context = Context::dry(gpu_with(options));
    program(context);
    return context.memory().statistics().peak_allocated;
}
std::size_t peak_of_attention(const ComputeOptions& options) { return peak_of(attention_and_gradient, options); }

TEST(ComputeOptions, AGpuIsRehearsedWithTheScratchThatTheyAllow) {
    const std::size_t all = peak_of_attention({});  // 8 batches at once fit into 256 MiB
    EXPECT_EQ(peak_of_attention({.scratch_budget = std::size_t{1} << 30}), all);
    EXPECT_EQ(all - peak_of_attention({.scratch_budget = std::size_t{64} << 20}),
              6 * (scores_of_batch + rows_of_batch));
    EXPECT_EQ(all - peak_of_attention({.deterministic = false}), 8 * (scores_of_batch - 12 * 1024 * 64 * 4));
    EXPECT_LT(peak_of_attention({.scratch_budget = 0}), all - 8 * scores_of_batch);
}

/// Where algorithms are tried, products that add to their result take room for it, if the budget has that.
TEST(ComputeOptions, ARehearsalTakesTheMemoryThatTuningTakes) {
    constexpr std::int64_t side = 4096;
    constexpr std::size_t result = side * side * sizeof(float);
    const auto add_gradients = [](Context& context) {
        const Tensor weight = context.from_array(context.exec().empty({side, side}, Dtype::f32)).requires_grad_();
        const Tensor x = context.from_array(context.exec().empty({1, side}, Dtype::f32));
        for (int i = 0; i < 2; ++i) backward(sum(matmul(x, weight)));
    };
    const std::size_t plain = peak_of(add_gradients, {});
    EXPECT_EQ(peak_of(add_gradients, {.tune = true}), plain + result);
    EXPECT_EQ(peak_of(add_gradients, {.tune = true, .scratch_budget = result - 1}), plain);
}

/// The attention, and elsewhere a peak that is that of an attention with `scratch`.
void program_with_room(Context& context, std::size_t scratch) {
    attention_and_gradient(context);
    const std::size_t peak = peak_of_attention({.scratch_budget = scratch});
    context.exec().empty({static_cast<std::int64_t>(peak)}, Dtype::boolean);
}

constexpr std::size_t kCounters = std::size_t{64} << 10, kBatch = scores_of_batch + rows_of_batch;

TEST(FitScratchBudget, TakesWhatIsFreeAnyway) {
    const auto program = [](Context& context) { program_with_room(context, kCounters + 4 * kBatch); };
    const std::size_t budget = fit_scratch_budget(gpu_with({.scratch_budget = std::size_t{32} << 20}), program);
    EXPECT_GE(budget, kCounters + 4 * kBatch);  // a divisor of 8 batches: not 5 to 7
    EXPECT_LT(budget, kCounters + 8 * kBatch);
    EXPECT_EQ(peak_of(program, {.scratch_budget = budget}), peak_of(program, {.scratch_budget = 32 << 20}));
    EXPECT_GT(peak_of(program, {.scratch_budget = budget + (2 << 20)}), peak_of(program, {.scratch_budget = budget}));
}

TEST(FitScratchBudget, IsNeverBelowTheBudgetThatThereWas) {
    const std::size_t own = kCounters + 4 * kBatch - 1;  // by a byte too small for 4 batches at once
    EXPECT_EQ(fit_scratch_budget(gpu_with({.scratch_budget = own}), attention_and_gradient), own);
}

TEST(FitScratchBudget, KeepsToALimit) {
    const std::size_t two = peak_of_attention({.scratch_budget = kCounters + 2 * kBatch});
    const std::size_t budget = fit_scratch_budget(gpu_with({}), attention_and_gradient, two);
    EXPECT_EQ(peak_of_attention({.scratch_budget = budget}), two);
    EXPECT_GE(budget, kCounters + 2 * kBatch);
    EXPECT_LT(budget, kCounters + 4 * kBatch);
    Profile small = gpu_with({});
    small.memory_limit = two + (4 << 20);  // a rehearsal that exceeds it does not fit
    EXPECT_EQ(fit_scratch_budget(small, attention_and_gradient, peak_of_attention({})), budget);
}

/// A head whose table nobody needs after the forward pass if the gradient of x is kept, and then the peak.
void head_before_the_peak(Context& context) {
    const auto empty = [&](Shape shape, Dtype dtype) { return context.from_array(context.exec().empty(shape, dtype)); };
    const Tensor x = empty({512, 256}, Dtype::f32).requires_grad_();
    const Loss loss = linear_cross_entropy(x, empty({16384, 256}, Dtype::f32), empty({512}, Dtype::i32));
    context.exec().empty({std::int64_t{128} << 20}, Dtype::boolean);
}

TEST(FitScratchBudget, FindsOneWhereABudgetLowersThePeak) {
    const std::size_t kept = peak_of(head_before_the_peak, {});
    ASSERT_LT(kept, peak_of(head_before_the_peak, {.scratch_budget = 0}));
    const std::size_t budget = fit_scratch_budget(gpu_with({.scratch_budget = 0}), head_before_the_peak, kept);
    EXPECT_EQ(peak_of(head_before_the_peak, {.scratch_budget = budget}), kept);
}

TEST(FitScratchBudget, RefusesALimitBelowWhatIsNeeded) {
    EXPECT_THAT([] { fit_scratch_budget(gpu_with({}), attention_and_gradient, 1000); },
                headroom::test::throws<Error>("fit_scratch_budget: ", "1000 bytes"));
    Profile small = gpu_with({});
    small.memory_limit = 2 << 20;
    EXPECT_THROW(fit_scratch_budget(small, attention_and_gradient), OutOfMemory);
}

}  // namespace compute_options_test
}  // namespace headroom
