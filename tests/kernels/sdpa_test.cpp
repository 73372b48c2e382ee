#include <headroom/kernels/attention/internal/sdpa.hpp>

#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/attention_trial.hpp>
#include <headroom/tests/kernels/packed_attention.hpp>
#include <headroom/tests/kernels/planned.hpp>

namespace headroom::kernels {
namespace sdpa_test {

using test::PackedAttention;

/// GPT-2's smallest model.
const PackedAttention kGpt2{.batch = 64, .queries = 1024, .heads = 12, .key_heads = 12, .width = 64};

TEST(Sdpa, IsWhatTrainingAsks) {
    const auto forward = plan_sdpa(kGpt2.forward());
    ASSERT_TRUE(forward);
    EXPECT_EQ(forward->q, (Sdpa::Strides{1024 * 36 * 64, 36 * 64, 64}));
    EXPECT_EQ(forward->o, (Sdpa::Strides{1024 * 12 * 64, 12 * 64, 64}));
    EXPECT_FALSE(forward->stats) << "lse has no address here";
    EXPECT_EQ(forward->batch, 64);
    EXPECT_EQ(forward->heads, 12);
    EXPECT_EQ(sdpa_scratch(forward), kSdpaCounters);
    const auto gradient = plan_sdpa(kGpt2.gradient());
    ASSERT_TRUE(gradient);
    EXPECT_EQ(gradient->dk, (Sdpa::Strides{1024 * 36 * 64, 36 * 64, 64}));
    EXPECT_TRUE(gradient->causal);
}

/// What changes one thing in an attention that would be asked; neither forward nor gradient is asked then.
TEST(Sdpa, LeavesTheRestToOwnKernels) {
    const auto asked = [](PackedAttention x) { return plan_sdpa(x.forward()) || plan_sdpa(x.gradient()); };
    EXPECT_TRUE(asked(kGpt2));
    const std::vector<std::pair<const char*, std::function<void(PackedAttention&)>>> changes{
        {"f32", [](auto& x) { x.dtype = Dtype::f32; }},
        {"f64", [](auto& x) { x.dtype = Dtype::f64; }},
        {"width no multiple of 8", [](auto& x) { x.width = 60; }},
        {"wide", [](auto& x) { x.width = 136; }},
        {"no width", [](auto& x) { x.width = 0; }},
        {"few queries", [](auto& x) { x.queries = 63; }},
        {"few keys", [](auto& x) { x.causal = false, x.keys = 63; }},
        {"causal with fewer keys than queries", [](auto& x) { x.keys = 1023; }},
        {"no batches", [](auto& x) { x.batch = 0; }},
        {"rows that are no multiple of 16 bytes apart", [](auto& x) { x.gap = 4; }},
        {"negative scale", [](auto& x) { x.scale = -1; }},
        {"no scale", [](auto& x) { x.scale = 0; }},
        {"a mask",
         [](auto& x) {
             x.mask.values = contiguous_view(nullptr, Dtype::boolean, {1, 1, 1, 1});
         }},
        {"lengths", [](auto& x) { x.mask.lengths = contiguous_view(nullptr, Dtype::i64, {x.batch}); }},
        {"dropout", [](auto& x) { x.dropout.p = 0.1f; }},
    };
    for (const auto& [name, change] : changes) {
        PackedAttention x = kGpt2;
        change(x);
        EXPECT_FALSE(asked(x)) << name;
    }
}

TEST(Sdpa, TakesCrossAttentionCachesAndGroups) {
    for (auto change : std::vector<std::function<void(PackedAttention&)>>{
             [](auto& x) { x.keys = 2000; }, [](auto& x) { x.causal = false, x.keys = 65; },
             [](auto& x) { x.key_heads = 4; }, [](auto& x) { x.key_heads = 1; }, [](auto& x) { x.gap = 8; },
             [](auto& x) { x.width = 128; }, [](auto& x) { x.dtype = Dtype::f16; }, [](auto& x) { x.batch = 1; }}) {
        PackedAttention x = kGpt2;
        change(x);
        EXPECT_TRUE(plan_sdpa(x.forward()));
        EXPECT_TRUE(plan_sdpa(x.gradient()));
    }
}

TEST(Sdpa, TheLseOfEachPartIsAligned) {
    PackedAttention x = kGpt2;
    x.queries = 8190;  // a head at a time, and the lse of a head has 32760 bytes
    EXPECT_TRUE(plan_sdpa(x.forward()));
    EXPECT_FALSE(plan_sdpa(x.gradient()));
    x.queries = 8192;
    EXPECT_TRUE(plan_sdpa(x.gradient()));
}

TEST(Sdpa, LayoutsOfSingleTensorsCount) {
    const Attention forward = kGpt2.forward();
    for (View Attention::*x : {&Attention::q, &Attention::k, &Attention::v, &Attention::o}) {
        Attention changed = forward;
        std::swap((changed.*x).strides[1], (changed.*x).strides[3]);
        EXPECT_FALSE(plan_sdpa(changed));
        changed = forward;
        (changed.*x).strides[2] = 0;
        EXPECT_FALSE(plan_sdpa(changed));
        changed = forward;
        (changed.*x).strides[0] += 4;
        EXPECT_FALSE(plan_sdpa(changed));
    }
    Attention changed = forward;
    changed.lse.strides[2] = 2;
    EXPECT_FALSE(plan_sdpa(changed));
    changed.lse = {};
    EXPECT_TRUE(plan_sdpa(changed));

    const AttentionGradient gradient = kGpt2.gradient();
    for (View AttentionGradient::*x :
         {&AttentionGradient::dy, &AttentionGradient::dq, &AttentionGradient::dk, &AttentionGradient::dv}) {
        AttentionGradient other = gradient;
        (other.*x).strides[1] += 1;
        EXPECT_FALSE(plan_sdpa(other));
        other.*x = {};
        EXPECT_FALSE(plan_sdpa(other)) << "all three are wanted";
        other = gradient;
        (other.*x).dtype = Dtype::f32;
        EXPECT_FALSE(plan_sdpa(other));
    }
    AttentionGradient other = gradient;
    other.lse = {};
    EXPECT_FALSE(plan_sdpa(other));
}

TEST(Sdpa, IsReadyWhereAddressesAreAlignedAndNothingIsAddedTo) {
    alignas(64) static std::byte memory[64];
    Attention forward;
    for (View Attention::*x : {&Attention::q, &Attention::k, &Attention::v, &Attention::o}) (forward.*x).data = memory;
    EXPECT_TRUE(ready(forward));
    for (View Attention::*x : {&Attention::q, &Attention::k, &Attention::v, &Attention::o}) {
        for (void* const data : {static_cast<void*>(memory + 8), static_cast<void*>(nullptr)}) {
            Attention changed = forward;
            (changed.*x).data = data;
            EXPECT_FALSE(ready(changed));
        }
    }
    AttentionGradient gradient;
    for (View AttentionGradient::*x : {&AttentionGradient::q, &AttentionGradient::k, &AttentionGradient::v,
                                       &AttentionGradient::o, &AttentionGradient::lse, &AttentionGradient::dy,
                                       &AttentionGradient::dq, &AttentionGradient::dk, &AttentionGradient::dv}) {
        EXPECT_FALSE(ready(gradient));
        (gradient.*x).data = memory;
    }
    EXPECT_TRUE(ready(gradient));
    for (float AttentionGradient::*beta :
         {&AttentionGradient::beta_q, &AttentionGradient::beta_k, &AttentionGradient::beta_v}) {
        AttentionGradient changed = gradient;
        changed.*beta = 1;
        EXPECT_FALSE(ready(changed));
    }
}

TEST(Sdpa, AGradientsPartsCoverItOnceAndKeepToTheScratch) {
    for (const PackedAttention& x :
         {kGpt2, PackedAttention{.batch = 61, .queries = 1024, .heads = 12, .key_heads = 12, .width = 64},
          PackedAttention{.batch = 3, .queries = 4096, .heads = 32, .key_heads = 8, .width = 128},
          PackedAttention{.batch = 2, .queries = 8192, .heads = 16, .key_heads = 16, .width = 64},
          PackedAttention{.batch = 5, .queries = 3000, .heads = 7, .key_heads = 7, .width = 64},
          PackedAttention{.batch = 1, .queries = 64, .heads = 1, .key_heads = 1, .width = 8}}) {
        const auto whole = plan_sdpa(x.gradient());
        ASSERT_TRUE(whole);
        std::vector<int> seen(static_cast<std::size_t>(whole->batch * whole->key_heads));
        std::vector<Sdpa> plans;
        for_each_part(*whole, [&](const Sdpa& part, std::int64_t batch, std::int64_t key_head) {
            EXPECT_LE(part.scratch(), sdpa_scratch(whole));
            EXPECT_EQ(part.group(), whole->group());
            if (plans.empty() || (plans.front() != part && plans.back() != part)) plans.push_back(part);
            for (std::int64_t b = batch; b < batch + part.batch; ++b) {
                for (std::int64_t g = key_head; g < key_head + part.key_heads; ++g) {
                    ++seen.at(static_cast<std::size_t>(b * whole->key_heads + g));
                }
            }
        });
        EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
        EXPECT_LE(plans.size(), 2u);
        EXPECT_LE(sdpa_scratch(whole), ComputeOptions().scratch_budget);
    }
}

/// By the CPU's kernel.
template <class Plan, class Call>
void compute(const Call& call) {
    StreamState state;
    CpuStream stream{.threads = 1, .state = &state};
    test::run<Plan>(stream, call);
}

/// What cuDNN would compute of a part: from its addresses, sizes and strides.
void compute_part(const Sdpa& x, const SdpaData& data) {
    const auto view = [&](std::byte* at, const Sdpa::Strides& strides, std::int64_t length, std::int64_t heads) {
        return View{at, x.dtype, {x.batch, length, heads, x.width}, {strides[0], strides[1], strides[2], 1}};
    };
    AttentionGradient part{.q = view(data.q, x.q, x.queries, x.heads),
                           .k = view(data.k, x.k, x.keys, x.key_heads),
                           .v = view(data.v, x.v, x.keys, x.key_heads),
                           .o = view(data.o, x.o, x.queries, x.heads),
                           .lse = contiguous_view(data.lse, Dtype::f32, {x.batch, x.heads, x.queries}),
                           .dy = view(data.dy, x.dy, x.queries, x.heads),
                           .dq = view(data.dq, x.dq, x.queries, x.heads),
                           .dk = view(data.dk, x.dk, x.keys, x.key_heads),
                           .dv = view(data.dv, x.dv, x.keys, x.key_heads)};
    part.causal = x.causal;
    part.scale = x.scale;
    compute<AttentionGradientPlan>(part);
}

TEST(Sdpa, PartsHaveTheirAddressesSizesAndStrides) {
    std::mt19937_64 random(1);
    const test::AttentionCase shape{5, 64, 70, 6, 3, 8, true};
    test::AttentionTrial whole(shape, Dtype::bf16, test::Layout::contiguous, random, Dtype::bf16);
    compute<AttentionPlan>(whole.forward());
    const test::AttentionTrial fresh = whole;
    auto plan = plan_sdpa(whole.gradient());
    ASSERT_TRUE(plan);
    compute_part(*plan, data_of(whole.gradient(), 0, 0));
    // A key head of a batch takes 38 kB: so many at a time, with a rest of heads or batches.
    for (const auto& [most, expected] :
         {std::pair<std::size_t, int>{1, 15}, {80'000, 10}, {250'000, 3}, {1'000'000, 1}}) {
        test::AttentionTrial parts = fresh;
        const AttentionGradient g = parts.gradient();
        ASSERT_TRUE(ready(g));
        int count = 0;
        plan->budget = kSdpaCounters + most;
        for_each_part(*plan, [&](const Sdpa& part, std::int64_t batch, std::int64_t key_head) {
            compute_part(part, data_of(g, batch, key_head));
            ++count;
        });
        EXPECT_EQ(count, expected);
        for (const auto& [x, y] : {std::pair{&parts.dq, &whole.dq}, {&parts.dk, &whole.dk}, {&parts.dv, &whole.dv}}) {
            EXPECT_EQ(x->memory(), y->memory()) << count << " parts";
        }
    }
}

TEST(Sdpa, ScratchOfAGradientIsThatOfTheScoresInTiles) {
    const auto gpt2 = plan_sdpa(kGpt2.gradient());
    EXPECT_EQ(largest_part(*gpt2).batch, 8);  // as many as fit, of those that divide 64
    EXPECT_EQ(sdpa_scratch(gpt2), kSdpaCounters + 8 * 12 * (1024 * 1024 * 2 + 1024 * 4));
    PackedAttention grouped{.batch = 2, .queries = 100, .keys = 300, .heads = 6, .key_heads = 3, .width = 40};
    EXPECT_EQ(sdpa_scratch(plan_sdpa(grouped.gradient())),
              kSdpaCounters + 12 * (128 * 384 * 2 + 100 * 4 + 2 * 300 * 40 * 2));
    // One head of it takes more than there may be.
    EXPECT_FALSE(plan_sdpa(PackedAttention{.batch = 1, .queries = 16384, .heads = 1, .key_heads = 1}.gradient()));
}

TEST(Sdpa, ABudgetDecidesHowManyBatchesAreOnePart) {
    constexpr std::size_t batch = 12 * (1024 * 1024 * 2 + 1024 * 4);
    for (const auto& [budget, batches] :
         {std::pair<std::size_t, std::int64_t>{kSdpaCounters + 64 * batch, 64}, {64 * batch, 32}, {5 * batch, 4}}) {
        const auto whole = plan_sdpa(kGpt2.gradient(), {.scratch_budget = budget});
        ASSERT_TRUE(whole);
        EXPECT_EQ(largest_part(*whole).batch, batches);
        EXPECT_EQ(sdpa_scratch(whole), kSdpaCounters + static_cast<std::size_t>(batches) * batch);
    }
    EXPECT_EQ(largest_part(*plan_sdpa(kGpt2.gradient(), {.scratch_budget = kSdpaCounters + batch / 2})).heads, 6);
    EXPECT_FALSE(plan_sdpa(kGpt2.gradient(), {.scratch_budget = 0}));
}

TEST(Sdpa, WithoutDeterminismScratchIsLinearInTheSequence) {
    const auto gpt2 = plan_sdpa(kGpt2.gradient(), {.deterministic = false});
    EXPECT_FALSE(gpt2->deterministic);
    EXPECT_EQ(sdpa_scratch(gpt2), kSdpaCounters + 64 * 12 * (1024 * 64 * 4 + 1024 * 4));  // all of it at once
    const PackedAttention grouped{.batch = 2, .queries = 100, .keys = 300, .heads = 6, .key_heads = 3, .width = 40};
    EXPECT_EQ(sdpa_scratch(plan_sdpa(grouped.gradient(), {.deterministic = false})),
              kSdpaCounters + 12 * (100 * 40 * 4 + 100 * 4 + 2 * 300 * 40 * 2));
    const PackedAttention longer{.batch = 1, .queries = 16384, .heads = 1, .key_heads = 1};
    EXPECT_TRUE(plan_sdpa(longer.gradient(), {.deterministic = false}));
}

TEST(Sdpa, ARehearsalOfAGpuReckonsWithIt) {
    StreamState state;
    for (const ComputeOptions& options :
         {ComputeOptions{}, {.deterministic = false}, {.scratch_budget = 100'000'000}, {.scratch_budget = 0}}) {
        Stream dry = DryStream{.threads = 1, .state = &state, .capability = 90, .compute = options};
        EXPECT_EQ(AttentionPlan(dry, kGpt2.forward()).scratch(), kSdpaCounters);
        EXPECT_EQ(AttentionGradientPlan(dry, kGpt2.gradient()).scratch(),
                  std::max<std::size_t>(sdpa_scratch(plan_sdpa(kGpt2.gradient(), options)), 64 * 12 * 1024 * 4));
    }
    Stream dry = DryStream{.threads = 1, .state = &state, .capability = 90};
    PackedAttention own = kGpt2;
    own.dtype = Dtype::f32;
    EXPECT_EQ(AttentionPlan(dry, own.forward()).scratch(), 0u);
    EXPECT_EQ(AttentionGradientPlan(dry, own.gradient()).scratch(), 64u * 12 * 1024 * 4);
}

}  // namespace sdpa_test
}  // namespace headroom::kernels
