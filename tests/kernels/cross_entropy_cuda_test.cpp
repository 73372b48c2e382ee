#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::compute_dtype;
using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::seeded;
using test::TestArray;

using CrossEntropyCuda = test::CudaTest;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Batch {
    Batch(Dtype dtype, std::int64_t count, std::int64_t classes, Layout layout, std::mt19937_64& random,
          Dtype index = Dtype::i64)
        : logits(dtype, {count, classes}, layout), targets(index, {count}, layout), lse(compute_dtype(dtype), {count}) {
        logits.fill(random, 1, 3);
        targets.fill_indices(random, classes);
    }

    void forward(test::Gpu& gpu, const View& logit, TestArray& loss, float beta) {
        TestArray terms(Dtype::f64, {});
        if (beta != 0) terms.set(0, 5);
        const View target = gpu.put(targets), lses = gpu.put(lse), to = gpu.put(loss), to_terms = gpu.put(terms);
        gpu.run<CrossEntropyPlan>(logit, target, options, to, to_terms, beta, lses);
        gpu.get(to, loss);
        gpu.get(to_terms, terms);
        double counted = beta != 0 ? 5 * static_cast<double>(beta) : 0;
        for (std::int64_t row = 0; row < count(); ++row) counted += ignored(row) ? 0 : 1;
        EXPECT_EQ(terms.get(0), counted);
        gpu.get(lses, lse);
    }
    double forward(test::Gpu& gpu, Dtype loss_dtype = Dtype::f64) {
        TestArray loss(loss_dtype, {});
        forward(gpu, gpu.put(logits), loss, 0);
        return loss.get(0);
    }
    void backward(test::Gpu& gpu, double dloss, TestArray& dlogits, float beta, Dtype dloss_dtype = Dtype::f32) {
        TestArray scalar(dloss_dtype, {});
        scalar.set(0, dloss);
        const View to = gpu.put(dlogits);
        cross_entropy_backward(gpu.stream, gpu.put(logits), gpu.put(targets), options, gpu.put(lse), gpu.put(scalar),
                               to, beta);
        gpu.get(to, dlogits);
    }

    std::int64_t count() const { return logits.view().shape[0]; }
    std::int64_t classes() const { return logits.view().shape[1]; }
    double logit(std::int64_t row, std::int64_t column) const { return logits.get(row * classes() + column); }
    bool ignored(std::int64_t row) const { return targets.get_integer(row) == options.ignore_index; }

    TestArray logits, targets, lse;
    CrossEntropyOptions options;
};

/// What the CPU computes in f64.
struct Exact {
    explicit Exact(const Batch& batch, double scale = 1)
        : logits(test::converted(batch.logits, Dtype::f64)),
          lse(Dtype::f64, batch.lse.view().shape),
          gradient(Dtype::f64, batch.logits.view().shape) {
        CpuStream cpu;
        TestArray total(Dtype::f64, {}), terms(Dtype::f64, {}), dloss(Dtype::f64, {});
        dloss.set(0, scale);
        test::run<CrossEntropyPlan>(cpu, logits, batch.targets, batch.options, total, terms, 0.0f, lse);
        cross_entropy_backward(cpu, logits, batch.targets, batch.options, lse, dloss, gradient, 0);
        loss = total.get(0);
    }
    TestArray logits, lse, gradient;
    double loss = 0;
};

/// Additions of the sum, exponentials of arguments up to 30, the logarithm.
double lse_error(const Batch& batch, double lse) {
    const double unit = epsilon(compute_dtype(batch.logits.view().dtype));
    return unit * (static_cast<double>(batch.classes()) / 16.0 + 32 + 4 * std::abs(lse));
}

void expect_forward(const Batch& batch, double loss) {
    const Exact exact(batch);
    double bound = 0;
    for (std::int64_t i = 0; i < batch.count(); ++i) {
        const double error = lse_error(batch, exact.lse.get(i));
        ASSERT_NEAR(batch.lse.get(i), exact.lse.get(i), error) << i;
        bound += error + epsilon(compute_dtype(batch.logits.view().dtype)) * 16;
    }
    ASSERT_NEAR(loss, exact.loss, bound);
}

void expect_backward(const Batch& batch, const TestArray& gradient, double scale, double before) {
    const Exact exact(batch, scale);
    const double unit = epsilon(compute_dtype(batch.logits.view().dtype));
    for (std::int64_t i = 0; i < gradient.numel(); ++i) {
        const double value = exact.gradient.get(i) + before;
        const double probability = std::exp(batch.logits.get(i) - exact.lse.get(i / batch.classes()));
        const double relative = unit * (static_cast<double>(batch.classes()) / 16.0 + 128);
        const double error = std::abs(scale) * (relative * probability + 4 * unit) + 4 * unit * std::abs(before);
        ASSERT_NEAR(gradient.get(i), value, error + test::rounding(gradient.view().dtype, value)) << i;
    }
}

// A lane, part of a warp, rows that begin anywhere, a block for a row, more than a batch for each of its threads.
constexpr std::pair<int, int> kSizes[] = {{1, 1}, {5, 3}, {40, 65}, {7, 31}, {3, 1024}, {3, 1025}, {2, 9001}};

TEST_F(CrossEntropyCuda, IsRightForEveryDtypeLayoutAndOption) {
    std::mt19937_64 random = seeded();
    for (const auto& [count, classes] : kSizes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                for (const double smoothing : {0.0, 0.1}) {
                    Batch batch(dtype, count, classes, layout, random,
                                layout == Layout::gaps ? Dtype::i32 : Dtype::i64);
                    batch.options = {.ignore_index = classes > 1 ? 1 : -100, .label_smoothing = smoothing};
                    SCOPED_TRACE(describe(batch.logits));
                    const double loss = batch.forward(*gpu);
                    expect_forward(batch, loss);
                    ASSERT_EQ(batch.forward(*gpu, Dtype::f32), static_cast<float>(loss));
                }
            }
        }
    }
}

TEST_F(CrossEntropyCuda, ReadsRowsThatBeginBesideMultiplesOf16Bytes) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        Batch whole(dtype, 4, 100, Layout::contiguous, random), part(dtype, 4, 96, Layout::contiguous, random);
        for (std::int64_t i = 0; i < 4; ++i) {
            for (std::int64_t k = 0; k < 96; ++k) part.logits.set(i * 96 + k, whole.logit(i, 3 + k));
        }
        part.options.label_smoothing = 0.2;
        View narrow = gpu->put(whole.logits);
        narrow.data = narrow.at(3);
        narrow.shape[1] = 96;
        TestArray loss(Dtype::f64, {});
        part.forward(*gpu, narrow, loss, 0);
        expect_forward(part, loss.get(0));
    }
}

TEST_F(CrossEntropyCuda, TakesTargetsAndLogitsOfSeveralAxes) {
    std::mt19937_64 random = seeded();
    TestArray logits(Dtype::f32, {2, 3, 40}, Layout::transposed), targets(Dtype::i64, {2, 3}, Layout::transposed);
    TestArray lse(Dtype::f32, {2, 3}), loss(Dtype::f64, {}), wide_lse(Dtype::f64, {2, 3}), expected(Dtype::f64, {});
    TestArray terms(Dtype::f64, {});
    logits.fill(random);
    targets.fill_indices(random, 40);
    CpuStream cpu;
    test::run<CrossEntropyPlan>(cpu, test::converted(logits, Dtype::f64), targets, CrossEntropyOptions{}, expected,
                                terms, 0.0f, wide_lse);
    const View to = gpu->put(loss), target = gpu->put(targets);
    gpu->run<CrossEntropyPlan>(gpu->put(logits), target, CrossEntropyOptions{}, to, gpu->put(terms), 0.0f,
                               gpu->put(lse));
    gpu->get(to, loss);
    EXPECT_NEAR(loss.get(0), expected.get(0), 6 * 64 * epsilon(Dtype::f32));
}

TEST_F(CrossEntropyCuda, AddsToALossAndRepeatsBitForBit) {
    std::mt19937_64 random = seeded();
    Batch batch(Dtype::f32, test::kRaces ? 70 : 1500, 5, Layout::contiguous, random);
    const double once = batch.forward(*gpu);
    expect_forward(batch, once);
    EXPECT_EQ(batch.forward(*gpu), once);
    TestArray loss(Dtype::f64, {1});
    loss.set(0, 10);
    batch.forward(*gpu, gpu->put(batch.logits), loss, 1);
    EXPECT_EQ(loss.get(0), 10 + once);
}

TEST_F(CrossEntropyCuda, OfNoRowsIsZero) {
    std::mt19937_64 random = seeded();
    Batch batch(Dtype::f32, 0, 5, Layout::contiguous, random);
    EXPECT_EQ(batch.forward(*gpu), 0);
    TestArray gradient(Dtype::f32, {0, 5});
    batch.backward(*gpu, 1, gradient, 0);
}

TEST_F(CrossEntropyCuda, StandsMaskedLogitsWhateverTheirPlaceButNoNan) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        Batch batch(dtype, 2, 5000, Layout::contiguous, random);
        for (std::int64_t c = 0; c < 4500; ++c) {
            batch.logits.set(c, -kInfinity);
            batch.logits.set(9999 - c, -kInfinity);
        }
        batch.targets.set(0, 4999), batch.targets.set(1, 0);
        expect_forward(batch, batch.forward(*gpu));
        TestArray gradient(dtype, {2, 5000});
        batch.backward(*gpu, 1, gradient, 0);
        EXPECT_EQ(gradient.get(0), 0);
        EXPECT_EQ(gradient.get(9999), 0);
        for (const double value : {std::nan(""), kInfinity}) {
            batch.logits.set(4700, value);
            EXPECT_TRUE(std::isnan(batch.forward(*gpu)));
        }
    }
}

TEST_F(CrossEntropyCuda, GivesARowOfNothingButMaskTheLogarithmOfZero) {
    std::mt19937_64 random = seeded();
    for (const std::int64_t classes : {5, 3000}) {
        Batch batch(Dtype::f32, 1, classes, Layout::contiguous, random);
        for (std::int64_t c = 0; c < classes; ++c) batch.logits.set(c, -kInfinity);
        batch.options.ignore_index = batch.targets.get_integer(0);
        EXPECT_EQ(batch.forward(*gpu), 0);
        EXPECT_EQ(batch.lse.get(0), -kInfinity);
    }
}

TEST_F(CrossEntropyCuda, NotesTargetsThatAreNoClassAndTakesClassZero) {
    std::mt19937_64 random = seeded();
    for (const double wrong : {5.0, -1.0}) {
        Batch batch(Dtype::f32, 4, 5, Layout::contiguous, random);
        batch.targets.set(2, wrong);
        const auto expect_noted = [&] {
            const auto error = gpu->device->take_index_error();
            ASSERT_TRUE(error);
            EXPECT_EQ(std::string(error->what), "cross_entropy: target");
            EXPECT_EQ(error->value, wrong);
            EXPECT_EQ(error->position, 2);
            EXPECT_EQ(error->bound, 5);
        };
        TestArray loss(Dtype::f64, {}), terms(Dtype::f64, {}), gradient(Dtype::f32, {4, 5}), dloss(Dtype::f32, {});
        dloss.set(0, 1);
        const View logits = gpu->put(batch.logits), targets = gpu->put(batch.targets), lse = gpu->put(batch.lse);
        const View to = gpu->put(loss), to_logits = gpu->put(gradient);
        gpu->run<CrossEntropyPlan>(logits, targets, CrossEntropyOptions{}, to, gpu->put(terms), 0.0f, lse);
        gpu->device->synchronize();
        expect_noted();
        cross_entropy_backward(gpu->stream, logits, targets, {}, lse, gpu->put(dloss), to_logits, 0);
        gpu->device->synchronize();
        expect_noted();
        gpu->get(to, loss);
        gpu->get(lse, batch.lse);
        gpu->get(to_logits, gradient);
        batch.targets.set(2, 0);
        expect_forward(batch, loss.get(0));
        expect_backward(batch, gradient, 1, 0);
    }
}

TEST_F(CrossEntropyCuda, GradientIsRightForEveryDtypeLayoutAndBeta) {
    std::mt19937_64 random = seeded();
    for (const auto& [count, classes] : kSizes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                for (const Dtype to : {dtype, Dtype::f32}) {
                    const float beta = to == Dtype::f32 ? 1 : 0;
                    Batch batch(dtype, count, classes, layout, random);
                    batch.options = {.ignore_index = 1, .label_smoothing = 0.1};
                    SCOPED_TRACE(describe(batch.logits));
                    batch.forward(*gpu);
                    TestArray gradient(to, {count, classes}, layout);
                    if (beta != 0) {
                        for (std::int64_t i = 0; i < gradient.numel(); ++i) gradient.set(i, 2);
                    }
                    batch.backward(*gpu, 3, gradient, beta, dtype);
                    expect_backward(batch, gradient, 3, 2 * beta);
                    ASSERT_TRUE(gradient.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(CrossEntropyCuda, GradientInF32BesideHalvesThatBeginAligned) {
    std::mt19937_64 random = seeded();
    for (const float beta : {0.0f, 1.0f}) {
        Batch batch(Dtype::f16, 3, 2048 + 8, Layout::contiguous, random);
        batch.forward(*gpu);
        TestArray gradient(Dtype::f32, {3, 2048 + 8});
        for (std::int64_t i = 0; beta != 0 && i < gradient.numel(); ++i) gradient.set(i, 2);
        batch.backward(*gpu, 1, gradient, beta);
        expect_backward(batch, gradient, 1, 2 * beta);
    }
}

TEST_F(CrossEntropyCuda, GradientMayBeWrittenOverTheLogits) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : kFloating) {
        Batch batch(dtype, 9, 1501, Layout::contiguous, random);
        batch.forward(*gpu);
        TestArray gradient(dtype, {9, 1501}), one(Dtype::f32, {}), over(batch.logits);
        one.set(0, 1);
        batch.backward(*gpu, 1, gradient, 0);
        const View logits = gpu->put(batch.logits);
        cross_entropy_backward(gpu->stream, logits, gpu->put(batch.targets), batch.options, gpu->put(batch.lse),
                               gpu->put(one), logits, 0);
        gpu->get(logits, over);
        EXPECT_EQ(gradient.memory(), over.memory());
    }
}

TEST_F(CrossEntropyCuda, ScratchIsTheSameInARehearsalAndNoneOnTheCpu) {
    const View targets = contiguous_view(nullptr, Dtype::i64, {16, 256});
    Stream real = gpu->stream, dry = DryStream{.cuda = true}, cpu = CpuStream{};
    const auto bytes = [&](const Stream& stream) {
        return CrossEntropyPlan(stream, View{}, targets, {}, {}, {}, 0, {}).scratch();
    };
    EXPECT_EQ(bytes(real), 16u * 256 * 8);
    EXPECT_EQ(bytes(dry), 16u * 256 * 8);
    EXPECT_EQ(bytes(cpu), 0u);
}

}  // namespace
}  // namespace headroom::kernels
