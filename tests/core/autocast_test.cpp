// One cast of a value serves all its uses under autocast, for as long as backward needs it; without backward, for one
// op or as long as `KeptCasts` says. What norms and sums give needs none.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/memory/memory_scope.hpp>

namespace headroom {
namespace autocast_test {

constexpr std::int64_t kWidth = 64;
constexpr std::size_t kHalves = 2 * kWidth * kWidth;  // bytes

/// Small integers: exact in half precision.
void fill(Exec& exec, const Array& parameter, const kernels::RandomKey&) {
    std::vector<float> values(static_cast<std::size_t>(parameter.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
    upload(exec, contiguous_view(values.data(), Dtype::f32, parameter.shape()), parameter);
}

class AutocastTest : public ::testing::Test {
  protected:
    AutocastTest() {
        weight = parameters.create("weight", {kWidth, kWidth}, fill);
        parameters.materialize();
    }
    std::size_t allocated() { return context.memory().statistics().allocated; }
    std::uint64_t recorded() { return context.tape().statistics().recorded; }
    Tensor input() { return context.from_host(std::vector<float>(kWidth, 1), {1, kWidth}).requires_grad_(); }
    /// `uses` products with the same weight, on half of an input each.
    std::vector<Tensor> products(const Tensor& x, int uses) {
        std::vector<Tensor> all;
        for (int i = 0; i < uses; ++i) all.push_back(linear(x, i % 2 ? weight.transpose(0, 1) : weight));
        return all;
    }

    Context context = Context::cpu({.threads = 1});
    Parameters parameters{context};
    Tensor weight;
};

TEST_F(AutocastTest, OneCastServesAllUsesAndViewsOfAValue) {
    const Tensor x = input();
    const Autocast half(context, Dtype::bf16);
    const std::uint64_t before = recorded();
    const std::vector<Tensor> all = products(x, 8);
    EXPECT_EQ(recorded() - before, 8u + 2u);  // one cast of the weight, one of x
}

TEST_F(AutocastTest, TheCastIsGoneWithItsLastUse) {
    const Tensor x = input();
    const std::size_t before = allocated();
    {
        const Autocast half(context, Dtype::bf16);
        std::vector<Tensor> all = products(x, 3);
        EXPECT_GE(allocated(), before + kHalves);
        EXPECT_LT(allocated(), before + 2 * kHalves);
        all.clear();
        EXPECT_EQ(allocated(), before) << "nothing that was made of it is left";
        all = products(x, 1);
        backward(sum(all[0]));
    }
    parameters.zero_grad();
    x.zero_grad();
    EXPECT_EQ(allocated(), before);
}

TEST_F(AutocastTest, TheNextMicroBatchCastsAnew) {
    const Autocast half(context, Dtype::bf16);
    for (int step = 0; step < 2; ++step) {
        const std::uint64_t before = recorded();
        const Tensor x = input();
        backward(sum(linear(linear(x, weight), weight)));
        EXPECT_EQ(recorded() - before, 2u + 2u + 1u);
        parameters.zero_grad();
        fill(context.exec(), weight.array(), {});
        parameters.mark_changed();
    }
}

TEST_F(AutocastTest, WithoutRecordingACastGoesWithItsOp) {
    const Tensor x = input().detach();
    const Autocast half(context, Dtype::f16);
    const NoGradGuard guard(context);
    const std::size_t before = allocated();
    const memory::MemoryScope scope(context.memory());
    linear(x, weight);
    const std::size_t peak = scope.peak();
    EXPECT_GE(peak, kHalves);
    for (int i = 0; i < 3; ++i) linear(x, weight);
    EXPECT_EQ(scope.peak(), peak);
    EXPECT_EQ(allocated(), before);
}

TEST_F(AutocastTest, KeptCastsStayUntilTheScopeEndsOrRecordingGoesOn) {
    const Tensor x = input().detach();
    const Autocast half(context, Dtype::f16);
    const std::size_t before = allocated();
    {
        const KeptCasts casts(context);
        {
            const NoGradGuard guard(context);
            linear(x, weight);
            EXPECT_EQ(allocated() - before, kHalves);
        }
        EXPECT_EQ(allocated(), before);
    }
    {
        const NoGradGuard outer(context);
        const std::optional<KeptCasts> kept(std::in_place, context);
        for (int i = 0; i < 3; ++i) {
            const NoGradGuard inner(context);
            const KeptCasts again(context);
            linear(x, weight);
        }
        EXPECT_EQ(allocated() - before, kHalves);
        parameters.mark_changed();  // as a step does
        linear(x, weight);
        EXPECT_EQ(allocated() - before, kHalves) << "the old cast has gone";
        const Autocast other(context, Dtype::bf16);
        EXPECT_EQ(linear(x, weight).dtype(), Dtype::bf16);
        EXPECT_EQ(allocated() - before, kHalves);
    }
    EXPECT_EQ(allocated(), before);
    const NoGradGuard outer(context);
    std::optional<KeptCasts> kept(std::in_place, context);
    linear(x, weight);
    kept.reset();
    EXPECT_EQ(allocated(), before) << "the scope ends before the guard";
}

TEST_F(AutocastTest, ACastThatWasMadeWithoutRecordingIsNotDifferentiatedThrough) {
    const Tensor x = input();
    const Autocast half(context, Dtype::bf16);
    const KeptCasts casts(context);
    const NoGradGuard guard(context);
    linear(x, weight);
    context.tape().set_recording(true);
    backward(sum(linear(x, weight)));
    EXPECT_TRUE(weight.grad().defined());
}

TEST_F(AutocastTest, AChangedWeightIsCastAgain) {
    const Tensor x = input().detach();
    const Autocast half(context, Dtype::bf16);
    const NoGradGuard guard(context);
    const KeptCasts casts(context);
    const double before = sum(linear(x, weight)).item();
    std::vector<float> values(kWidth * kWidth, 2);
    upload(context.exec(), contiguous_view(values.data(), Dtype::f32, weight.shape()), weight.array());
    parameters.mark_changed();
    EXPECT_NE(sum(linear(x, weight)).item(), before);
    EXPECT_EQ(sum(linear(x, weight)).item(), 2.0 * kWidth * kWidth);
}

TEST_F(AutocastTest, AWeightThatIsFrozenBetweenTwoUsesGetsTheGradientOfNone) {
    Tensor own = context.from_host(std::vector<float>(kWidth * kWidth, 1), {kWidth, kWidth}).requires_grad_();
    const Tensor x = input();
    const Autocast half(context, Dtype::bf16);
    own.requires_grad_(false);
    const Tensor frozen = linear(x, own);
    own.requires_grad_(true);
    backward(sum(linear(frozen, own)));
    EXPECT_EQ(own.grad().to_vector<double>(), std::vector<double>(kWidth * kWidth, kWidth));
    own.reset();  // the leaf goes before its casts
}

TEST_F(AutocastTest, RecomputationGivesTheSameBits) {
    std::vector<std::vector<float>> gradients;
    for (const bool again : {false, true}) {
        context.policy("again", again ? recompute_all() : inherit_all());
        const Tensor x = input();
        const Autocast half(context, Dtype::bf16);
        Tensor y = x;
        {
            const RegionScope region(context, context.memory().intern("again"));
            for (int i = 0; i < 4; ++i) y = linear(y, i % 2 ? weight.transpose(0, 1) : weight);
        }
        backward(sum(linear(y, weight)), 0x1p-20);
        gradients.push_back(weight.grad().to_vector<float>());
        gradients.push_back(x.grad().to_vector<float>());
        parameters.zero_grad();
    }
    EXPECT_EQ(gradients[0], gradients[2]);
    EXPECT_EQ(gradients[1], gradients[3]);
}

/// Of both norms, by their number.
Tensor normalized(int norm, const Tensor& x, const Tensor& gamma) {
    return norm == 0 ? layer_norm(x, gamma) : rms_norm(x, gamma);
}

TEST_F(AutocastTest, NormsComputeInF32AndWriteHalves) {
    std::vector<float> values(4 * kWidth), factors(kWidth), upstream(4 * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 101) / 37;
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = 1 + static_cast<float>(i) / 77;
    for (std::size_t i = 0; i < upstream.size(); ++i) upstream[i] = static_cast<float>(i % 7) - 3;  // exact as halves
    const Tensor dy = context.from_host(upstream, {4, kWidth});
    for (const int norm : {0, 1}) {
        std::vector<Tensor> x, gamma, y;
        for (const std::optional<Dtype> half : {std::optional<Dtype>(), {Dtype::bf16}, {Dtype::f16}}) {
            const Autocast autocast(context, half);
            x.push_back(context.from_host(values, {4, kWidth}).requires_grad_());
            gamma.push_back(context.from_host(factors, {kWidth}).requires_grad_());
            const std::uint64_t before = recorded();
            y.push_back(normalized(norm, x.back(), gamma.back()));
            EXPECT_EQ(recorded() - before, 1u);
            EXPECT_EQ(y.back().dtype(), half.value_or(Dtype::f32));
            EXPECT_EQ(y.back().to_vector<float>(), cast(y[0], y.back().dtype()).to_vector<float>());
            backward(sum(y.back() * dy));
            EXPECT_EQ(x.back().grad().dtype(), Dtype::f32);
            EXPECT_EQ(x.back().grad().to_vector<float>(), x[0].grad().to_vector<float>());
            EXPECT_EQ(gamma.back().grad().to_vector<float>(), gamma[0].grad().to_vector<float>());
        }
    }
}

TEST_F(AutocastTest, NormsKeepWhatIsNotF32AndWhatIsOutsideOfTheScope) {
    const Tensor x = input();
    const Autocast half(context, Dtype::bf16);
    for (const int norm : {0, 1}) {
        for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f64}) {
            EXPECT_EQ(normalized(norm, cast(x, dtype), {}).dtype(), dtype);
        }
        const Autocast off(context, std::nullopt);
        EXPECT_EQ(normalized(norm, x, {}).dtype(), Dtype::f32);
    }
}

TEST_F(AutocastTest, AReplayedNormWritesHalvesAgain) {
    std::vector<std::vector<float>> gradients;
    for (const bool again : {false, true}) {
        context.policy("again", again ? recompute_all() : inherit_all());
        const Tensor x = input();
        const std::uint64_t before = context.tape().statistics().replayed;
        Tensor loss;
        {
            const Autocast half(context, Dtype::bf16);
            const RegionScope region(context, context.memory().intern("again"));
            loss = sum(linear(layer_norm(x + weight.select(0, 1), weight.select(0, 0)), weight));
        }
        backward(loss, 0x1p-20);
        EXPECT_EQ(context.tape().statistics().replayed > before, again);
        gradients.push_back(weight.grad().to_vector<float>());
        gradients.push_back(x.grad().to_vector<float>());
        parameters.zero_grad();
    }
    EXPECT_EQ(gradients[0], gradients[2]);
    EXPECT_EQ(gradients[1], gradients[3]);
}

TEST_F(AutocastTest, ABranchInHalfPrecisionIsAddedToTheStreamAsItIs) {
    const std::vector<float> values{1.5f, -2}, stream{0x1p-20f, 1 + 0x1p-20f};
    const auto joins = {+[](Tensor branch, Tensor x) { return add(branch, x); },
                        +[](Tensor branch, Tensor x) { return add(x, branch); },
                        +[](Tensor branch, Tensor x) { return x - -branch; },
                        +[](Tensor branch, Tensor x) { return dropout_add(branch, x, 0x1p-30); }};
    for (const auto join : joins) {
        const Tensor branch = cast(context.from_host(values, {2}), Dtype::bf16).detach().requires_grad_();
        const Tensor x = context.from_host(stream, {2}).requires_grad_();
        const Autocast half(context, Dtype::bf16);
        const std::uint64_t before = recorded();
        const Tensor y = join(branch, x);
        EXPECT_LE(recorded() - before, 2u);
        EXPECT_EQ(y.dtype(), Dtype::f32);
        EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.5f + 0x1p-20f, -1 + 0x1p-20f}));
        backward(sum(y * context.from_host(std::vector<float>{3, 1 + 0x1p-20f}, {2})));
        EXPECT_EQ(branch.grad().dtype(), Dtype::bf16);
        EXPECT_EQ(branch.grad().to_vector<float>(), (std::vector<float>{3, 1}));
        EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 1 + 0x1p-20f}));
    }
}

/// The terms are 1 + 2^-8, which bf16 does not have, and -1.
TEST_F(AutocastTest, TheGradientOfAStretchedHalfIsSummedBeforeItIsRounded) {
    const Tensor terms = context.from_host(std::vector<float>{1 + 0x1p-8f, -1}, {2});
    const Tensor mask = context.from_host(std::vector<std::int32_t>{1, 1}, {2});
    const auto uses = {+[](Tensor h, Tensor x, Tensor) { return h * x; },
                       +[](Tensor h, Tensor x, Tensor) { return (x - h) * x; },
                       +[](Tensor h, Tensor x, Tensor mask) { return where(mask, h, x) * x; }};
    std::vector<float> gradients;
    for (const auto use : uses) {
        const Tensor h = context.scalar(1.0, Dtype::bf16).requires_grad_();
        backward(sum(use(h, terms, mask)));
        EXPECT_EQ(h.grad().dtype(), Dtype::bf16);
        gradients.push_back(h.grad().to_vector<float>()[0]);
    }
    EXPECT_EQ(gradients, (std::vector<float>{0x1p-8f, -0x1p-8f, 0x1p-8f}));
}

}  // namespace autocast_test
}  // namespace headroom
