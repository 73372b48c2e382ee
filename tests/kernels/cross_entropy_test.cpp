#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::compute_dtype;
using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

struct Rows {
    Rows(Dtype dtype, std::int64_t count, std::int64_t classes, Layout layout, std::mt19937_64& random,
         Dtype index = Dtype::i64)
        : logits(dtype, {count, classes}, layout), targets(index, {count}, layout), lse(compute_dtype(dtype), {count}) {
        logits.fill(random, 1, 3);
        targets.fill_indices(random, classes);
    }

    double forward(CpuStream& stream, Dtype loss_dtype = Dtype::f64) {
        TestArray loss(loss_dtype, {});
        TestArray terms(Dtype::f64, {});
        test::run<CrossEntropyPlan>(stream, logits, targets, options, loss, terms, 0.0f, lse);
        std::int64_t counted = 0;
        for (std::int64_t row = 0; row < count(); ++row) counted += ignored(row) ? 0 : 1;
        EXPECT_EQ(terms.get(0), static_cast<double>(counted));
        return loss.get(0);
    }
    void backward(CpuStream& stream, double dloss, const View& dlogits, float beta) {
        TestArray scalar(Dtype::f32, {});
        scalar.set(0, dloss);
        cross_entropy_backward(stream, logits, targets, options, lse, scalar, dlogits, beta);
    }

    std::int64_t count() const { return logits.view().shape[0]; }
    std::int64_t classes() const { return logits.view().shape[1]; }
    double logit(std::int64_t row, std::int64_t column) const { return logits.get(row * classes() + column); }
    bool ignored(std::int64_t row) const { return targets.get_integer(row) == options.ignore_index; }
    double exact_lse(std::int64_t row) const {
        double largest = -1e300, sum = 0;
        for (std::int64_t c = 0; c < classes(); ++c) largest = std::max(largest, logit(row, c));
        for (std::int64_t c = 0; c < classes(); ++c) sum += std::exp(logit(row, c) - largest);
        return largest + std::log(sum);
    }
    double exact_loss(std::int64_t row) const {
        const double e = options.label_smoothing;
        double mean = 0;
        for (std::int64_t c = 0; e != 0 && c < classes(); ++c) mean += logit(row, c) / static_cast<double>(classes());
        return exact_lse(row) - (1 - e) * logit(row, targets.get_integer(row)) - e * mean;
    }

    TestArray logits, targets, lse;
    CrossEntropyOptions options;
};

TEST(CrossEntropy, IsRightForEveryDtypeLayoutAndOption) {
    std::mt19937_64 random(41);
    CpuStream stream{.threads = 2};
    for (const auto& [count, classes] : {std::pair{1, 1}, {5, 3}, {40, 65}, {3, 2500}}) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const double smoothing : {0.0, 0.1}) {
                    Rows rows(dtype, count, classes, layout, random, layout == Layout::gaps ? Dtype::i32 : Dtype::i64);
                    rows.options = {.ignore_index = classes > 1 ? 1 : -100, .label_smoothing = smoothing};
                    SCOPED_TRACE(describe(rows.logits));
                    const double loss = rows.forward(stream);
                    const double unit = epsilon(compute_dtype(dtype));
                    double expected = 0, bound = 0;
                    for (std::int64_t i = 0; i < count; ++i) {
                        const double lse = rows.exact_lse(i);
                        // Additions of the sum, exponentials of arguments up to 30, the logarithm.
                        const double error = unit * (classes / 16.0 + 32 + 4 * std::abs(lse));
                        ASSERT_NEAR(rows.lse.get(i), lse, error);
                        if (rows.ignored(i)) continue;
                        expected += rows.exact_loss(i);
                        bound += error + unit * 16;
                    }
                    ASSERT_NEAR(loss, expected, bound);
                    ASSERT_EQ(rows.forward(stream, Dtype::f32), static_cast<float>(loss));
                }
            }
        }
    }
}

TEST(CrossEntropy, AddsToALoss) {
    std::mt19937_64 random(42);
    CpuStream stream;
    Rows rows(Dtype::f32, 8, 5, Layout::contiguous, random);
    const double once = rows.forward(stream);
    TestArray loss(Dtype::f64, {1}), terms(Dtype::f64, {1});
    loss.set(0, 10);
    terms.set(0, 3);
    test::run<CrossEntropyPlan>(stream, rows.logits, rows.targets, CrossEntropyOptions{}, loss, terms, 1.0f, rows.lse);
    EXPECT_EQ(loss.get(0), 10 + once);
    EXPECT_EQ(terms.get(0), 3 + 8);
}

TEST(CrossEntropy, OfNoRowsIsZero) {
    CpuStream stream;
    TestArray logits(Dtype::f32, {0, 5}), targets(Dtype::i64, {0}), lse(Dtype::f32, {0}), loss(Dtype::f32, {});
    TestArray terms(Dtype::f64, {});
    test::run<CrossEntropyPlan>(stream, logits, targets, CrossEntropyOptions{}, loss, terms, 0.0f, lse);
    EXPECT_EQ(loss.get(0), 0);
    EXPECT_EQ(terms.get(0), 0);
    cross_entropy_backward(stream, logits, targets, {}, lse, loss, logits, 0);
}

TEST(CrossEntropy, StandsMaskedLogitsWhateverTheirPlace) {
    std::mt19937_64 random(43);
    CpuStream stream;
    Rows rows(Dtype::f32, 2, 3000, Layout::contiguous, random);
    for (std::int64_t c = 0; c < 2500; ++c) {
        rows.logits.set(c, -std::numeric_limits<double>::infinity());         // a whole chunk of the first row
        rows.logits.set(5999 - c, -std::numeric_limits<double>::infinity());  // and the end of the second
    }
    rows.targets.set(0, 2999), rows.targets.set(1, 0);
    const double expected = rows.exact_loss(0) + rows.exact_loss(1);
    EXPECT_NEAR(rows.forward(stream), expected, 200 * epsilon(Dtype::f32));
    TestArray gradient(Dtype::f32, {2, 3000});
    rows.backward(stream, 1, gradient, 0);
    EXPECT_EQ(gradient.get(0), 0);
    EXPECT_EQ(gradient.get(5999), 0);
}

TEST(CrossEntropy, RefusesTargetsThatAreNoClassBeforeWriting) {
    std::mt19937_64 random(44);
    CpuStream stream;
    Rows rows(Dtype::f32, 4, 5, Layout::contiguous, random);
    for (const double wrong : {5.0, -1.0}) {
        rows.targets.set(2, wrong);
        TestArray loss(Dtype::f32, {}), terms(Dtype::f64, {}), gradient(Dtype::f32, {4, 5});
        try {
            test::run<CrossEntropyPlan>(stream, rows.logits, rows.targets, CrossEntropyOptions{}, loss, terms, 0.0f,
                                        rows.lse);
            ADD_FAILURE() << "accepted";
        } catch (const ShapeError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("position 2 is outside of [0, 5)"));
        }
        EXPECT_THROW(rows.backward(stream, 1, gradient, 0), ShapeError);
        EXPECT_TRUE(std::isnan(loss.get(0)) && std::isnan(gradient.get(0)));
    }
}

TEST(CrossEntropyBackward, AgreesWithFiniteDifferences) {
    std::mt19937_64 random(45);
    CpuStream stream;
    for (const double smoothing : {0.0, 0.2}) {
        Rows rows(Dtype::f64, 4, 5, Layout::contiguous, random);
        rows.options = {.ignore_index = 7, .label_smoothing = smoothing};
        rows.targets.set(1, 7);
        rows.forward(stream);
        TestArray gradient(Dtype::f64, {4, 5});
        rows.backward(stream, 0.5, gradient, 0);
        const auto expected = test::finite_differences(rows.logits, [&] { return rows.forward(stream) / 2; });
        for (std::int64_t i = 0; i < 20; ++i) {
            EXPECT_NEAR(gradient.get(i), expected[static_cast<std::size_t>(i)], 1e-8);
        }
    }
}

TEST(CrossEntropyBackward, IsRightForEveryDtypeLayoutAndBeta) {
    std::mt19937_64 random(46);
    CpuStream stream{.threads = 2};
    for (const auto& [count, classes] : {std::pair{5, 3}, {40, 65}, {3, 2500}}) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f}) {
                    Rows rows(dtype, count, classes, layout, random);
                    rows.options = {.ignore_index = 1, .label_smoothing = 0.1};
                    SCOPED_TRACE(describe(rows.logits));
                    rows.forward(stream);
                    TestArray gradient(dtype, {count, classes}, layout);
                    if (beta != 0) gradient.fill(random);
                    const auto before = gradient.values();
                    rows.backward(stream, 3, gradient, beta);
                    const double unit = epsilon(compute_dtype(dtype));
                    std::vector<double> lse;
                    for (std::int64_t i = 0; i < count; ++i) lse.push_back(rows.exact_lse(i));
                    for (std::int64_t i = 0; i < gradient.numel(); ++i) {
                        const std::int64_t row = i / classes, column = i % classes;
                        const double probability = std::exp(rows.logits.get(i) - lse[static_cast<std::size_t>(row)]);
                        const double own = column == rows.targets.get_integer(row) ? 0.9 : 0;
                        const double change = rows.ignored(row) ? 0 : 3 * (probability - own - 0.1 / classes);
                        const double value = change + (beta != 0 ? before[static_cast<std::size_t>(i)] : 0);
                        const double error = unit * (classes / 16.0 + 128) * 3 * probability + 4 * unit * (own + 0.1);
                        ASSERT_NEAR(gradient.get(i), value, error + test::rounding(dtype, value)) << i;
                    }
                    ASSERT_TRUE(gradient.gaps_untouched());
                }
            }
        }
    }
}

TEST(CrossEntropyBackward, MayWriteOverTheLogits) {
    std::mt19937_64 random(47);
    CpuStream stream{.threads = 2};
    for (const Dtype dtype : kFloating) {
        Rows rows(dtype, 30, 1500, Layout::contiguous, random);
        rows.forward(stream);
        TestArray gradient(dtype, {30, 1500});
        rows.backward(stream, 1, gradient, 0);
        rows.backward(stream, 1, rows.logits, 0);
        EXPECT_EQ(gradient.memory(), rows.logits.memory());
    }
}

TEST(CrossEntropy, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(48);
    Rows rows(Dtype::f32, 768, 65, Layout::contiguous, random);
    CpuStream one{.threads = 1};
    const double loss = rows.forward(one);
    for (const int threads : {2, 3, 7}) {
        CpuStream stream{.threads = threads};
        EXPECT_EQ(rows.forward(stream), loss);
    }
}

TEST(CrossEntropy, OverChunksOfRowsIsThatOverAll) {
    std::mt19937_64 random(49);
    CpuStream stream;
    Rows rows(Dtype::f32, 24, 33, Layout::contiguous, random);
    const double whole = rows.forward(stream);
    TestArray gradient(Dtype::f32, {24, 33}), loss(Dtype::f64, {}), terms(Dtype::f64, {}), one(Dtype::f32, {});
    rows.backward(stream, 1, gradient, 0);
    one.set(0, 1);
    for (std::int64_t begin = 0; begin < 24; begin += 10) {
        const std::int64_t count = std::min<std::int64_t>(10, 24 - begin);
        const View logits = contiguous_view(rows.logits.view().at(begin * 33), Dtype::f32, {count, 33});
        const View targets = contiguous_view(rows.targets.view().at(begin), Dtype::i64, {count});
        TestArray lse(Dtype::f32, {count});
        test::run<CrossEntropyPlan>(stream, logits, targets, CrossEntropyOptions{}, loss, terms,
                                    begin == 0 ? 0.0f : 1.0f, lse);
        cross_entropy_backward(stream, logits, targets, {}, lse, one, logits, 0);
    }
    EXPECT_NEAR(loss.get(0), whole, 1e-12 * whole);
    EXPECT_EQ(terms.get(0), 24);
    EXPECT_EQ(rows.logits.memory(), gradient.memory());
}

}  // namespace
}  // namespace headroom::kernels
