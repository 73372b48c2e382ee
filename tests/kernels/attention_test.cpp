#include <headroom/kernels/attention/attention.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/attention_trial.hpp>
#include <headroom/tests/kernels/planned.hpp>

namespace headroom::kernels {
namespace attention_test {

using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;
using test::Weights;

using Case = test::AttentionCase;

/// One position; rests against blocks of keys (64), of queries (24, 32) and vectors; several blocks; grouped heads;
/// a key-value cache; fewer keys than queries, so that some see none; no keys.
const Case kCases[] = {
    {1, 1, 1, 1, 1, 1, true},     {2, 5, 5, 2, 2, 3, true},      {2, 64, 64, 2, 2, 32, true},
    {1, 65, 65, 1, 1, 16, true},  {1, 150, 150, 2, 1, 20, true}, {2, 33, 70, 6, 2, 8, true},
    {1, 1, 100, 4, 4, 16, true},  {1, 40, 130, 2, 1, 17, false}, {1, 130, 40, 2, 2, 5, true},
    {2, 25, 64, 3, 3, 64, false}, {1, 9, 0, 2, 1, 4, false},     {1, 3, 3, 1, 1, 130, true},
};

struct Trial : test::AttentionTrial {
    using AttentionTrial::AttentionTrial;

    void run(int threads, float beta = 0) const {
        StreamState state;
        CpuStream stream{threads, &state};
        test::run<AttentionPlan>(stream, forward());
        test::run<AttentionGradientPlan>(stream, gradient(beta));
    }
};

TEST(Attention, MatchesF64ForAnyDtypeShapeAndStrides) {
    std::mt19937_64 random(1);
    for (const Case& c : kCases) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                SCOPED_TRACE(text(c, dtype) + " layout " + std::to_string(static_cast<int>(layout)));
                const Trial trial(c, dtype, layout, random, dtype);
                trial.run(2);  // outputs and gradients were NaN: nothing of them may have been read
                expect_matches(trial);
                if (HasFatalFailure() || HasNonfatalFailure()) return;
            }
        }
    }
}

TEST(Attention, AccumulatesGradientsAlsoInF32ForHalves) {
    std::mt19937_64 random(2);
    for (const Dtype dtype : kFloating) {
        for (const float beta : {1.0f, 0.5f}) {
            for (const Layout layout : {Layout::gaps, Layout::contiguous}) {  // whole vectors are summed where they are
                const Case c{2, 40, 70, 4, 2, layout == Layout::gaps ? 20 : 32, true};
                Trial trial(c, dtype, layout, random, test::compute_dtype(dtype));
                for (TestArray* x : {&trial.dq, &trial.dk, &trial.dv}) {
                    for (std::int64_t i = 0; i < x->numel(); ++i) x->set(i, 0.5 / static_cast<double>(beta));
                }
                SCOPED_TRACE(text(c, dtype) + " beta " + std::to_string(beta));
                trial.run(2, beta);
                expect_matches(trial, 0.5);
            }
        }
    }
}

/// Rests against blocks and vectors; grouped heads, a key-value cache; more queries than keys.
const Case kMaskedCases[] = {{2, 65, 70, 4, 2, 20, false}, {3, 33, 130, 2, 1, 8, true}, {2, 70, 9, 2, 2, 5, true}};

/// Queries to which all keys are hidden are among them: they give 0, and minus infinity as lse, without an error.
TEST(Attention, MasksAndDropoutMatchF64) {
    std::mt19937_64 random(11);
    for (const Case& c : kMaskedCases) {
        for (const test::MaskCase& mask : test::kMaskCases) {
            for (const Dtype dtype : kFloating) {
                SCOPED_TRACE(text(c, dtype) + " " + mask.name);
                Trial trial(c, dtype, Layout::contiguous, random, dtype);
                trial.hide(mask, random);
                trial.run(2);
                expect_matches(trial);
                if (HasFatalFailure() || HasNonfatalFailure()) return;
            }
        }
    }
}

TEST(Attention, OfScoresThatShareAnOffsetMatchesF64) {
    test::expect_matches_at_offsets<Trial>(Weights::exact, [](Trial& trial) { trial.run(2); });
}

TEST(Attention, OfOneKeyHasNoGradientOfItsScores) {
    test::expect_no_gradient_of_one_key<Trial>([](Trial& trial) { trial.run(2); });
}

TEST(Attention, RefusesALengthBeyondTheKeys) {
    std::mt19937_64 random(12);
    Trial trial({2, 3, 5, 1, 1, 4, false}, Dtype::f32, Layout::contiguous, random, Dtype::f32);
    trial.hide(test::kMaskCases[4], random);
    for (const double length : {6.0, -1.0}) {
        trial.lengths->set(1, length);
        try {
            trial.run(1);
            FAIL() << "took a length of " << length;
        } catch (const ShapeError& error) {
            EXPECT_NE(std::string(error.what()).find("at position 1 is outside of [0, 6)"), std::string::npos);
        }
    }
}

/// q, k, v side by side in one tensor, as a Linear gives them.
TEST(Attention, ReadsAndWritesSlicesOfAPackedTensor) {
    std::mt19937_64 random(3);
    const Case c{2, 30, 30, 4, 2, 8, true};
    const std::int64_t row = (c.heads + 2 * c.key_heads) * c.width;
    Trial trial(c, Dtype::f32, Layout::contiguous, random, Dtype::f32);
    trial.run(1);
    TestArray packed(Dtype::f32, {c.batch, c.queries, row}), dpacked(Dtype::f32, {c.batch, c.queries, row});
    const auto slice = [&](const TestArray& from, std::int64_t first, std::int64_t heads) {
        return View{from.view().at(first * c.width),
                    Dtype::f32,
                    {c.batch, c.queries, heads, c.width},
                    {c.queries * row, row, c.width, 1}};
    };
    const std::int64_t starts[] = {0, c.heads, c.heads + c.key_heads};
    const TestArray* sources[] = {&trial.q, &trial.k, &trial.v};
    const TestArray* gradients[] = {&trial.dq, &trial.dk, &trial.dv};
    View slices[3], dslices[3];
    for (int part = 0; part < 3; ++part) {
        const std::int64_t heads = part == 0 ? c.heads : c.key_heads;
        slices[part] = slice(packed, starts[part], heads);
        dslices[part] = slice(dpacked, starts[part], heads);
        for (std::int64_t i = 0; i < sources[part]->numel(); ++i) {
            packed.set(i / (heads * c.width) * row + starts[part] * c.width + i % (heads * c.width),
                       sources[part]->get(i));
        }
    }
    TestArray o(Dtype::f32, trial.o.view().shape);
    StreamState state;
    CpuStream stream{2, &state};
    const Attention forward{slices[0], slices[1], slices[2], o, trial.lse, true, trial.scale};
    test::run<AttentionPlan>(stream, forward);
    const AttentionGradient gradient{slices[0],  slices[1],  slices[2], o, trial.lse, trial.dy, dslices[0],
                                     dslices[1], dslices[2], 0,         0, 0,         true,     trial.scale};
    test::run<AttentionGradientPlan>(stream, gradient);
    EXPECT_EQ(o.values(), trial.o.values());
    for (int part = 0; part < 3; ++part) {
        const std::int64_t width = (part == 0 ? c.heads : c.key_heads) * c.width;
        for (std::int64_t i = 0; i < gradients[part]->numel(); ++i) {
            ASSERT_EQ(dpacked.get(i / width * row + starts[part] * c.width + i % width), gradients[part]->get(i)) << i;
        }
    }
}

TEST(Attention, BitsDoNotDependOnThreads) {
    for (const Dtype dtype : kFloating) {
        // Fewer heads than threads, too: then queries are shared out.
        for (const Case& c : {Case{2, 70, 70, 4, 2, 16, true}, Case{1, 120, 90, 1, 1, 24, false}}) {
            std::vector<std::vector<double>> first;
            for (const int threads : {1, 2, 3}) {
                std::mt19937_64 random(4);
                const Trial trial(c, dtype, Layout::contiguous, random, dtype);
                trial.run(threads);
                std::vector<std::vector<double>> results;
                for (const TestArray* x : {&trial.o, &trial.lse, &trial.dq, &trial.dk, &trial.dv}) {
                    results.push_back(x->values());
                }
                if (first.empty()) first = results;
                EXPECT_EQ(results, first) << text(c, dtype) << " threads " << threads;
            }
        }
    }
}

TEST(Attention, ComputesOnlyTheGradientsThatAreWanted) {
    std::mt19937_64 random(5);
    const Case c{1, 20, 20, 2, 1, 8, true};
    const Trial all(c, Dtype::f32, Layout::contiguous, random, Dtype::f32);
    all.run(1);
    for (int wanted = 0; wanted < 8; ++wanted) {
        const TestArray nothing(Dtype::f32, {c.batch, c.queries, c.heads, c.width});
        TestArray dq(nothing), dk(Dtype::f32, all.k.view().shape), dv(dk);
        AttentionGradient gradient = all.gradient();
        gradient.dq = dq;
        gradient.dk = dk;
        gradient.dv = dv;
        if (!(wanted & 1)) gradient.dq.data = nullptr;
        if (!(wanted & 2)) gradient.dk.data = nullptr;
        if (!(wanted & 4)) gradient.dv.data = nullptr;
        StreamState state;
        CpuStream stream{1, &state};
        test::run<AttentionGradientPlan>(stream, gradient);
        EXPECT_EQ(dq.memory(), wanted & 1 ? all.dq.memory() : nothing.memory());
        EXPECT_EQ(dk.values() == all.dk.values(), (wanted & 2) != 0);
        EXPECT_EQ(dv.values() == all.dv.values(), (wanted & 4) != 0);
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
    std::mt19937_64 random(6);
    const Case c{1, 90, 90, 1, 1, 16, true};
    Trial trial(c, Dtype::f32, Layout::contiguous, random, Dtype::f32);
    for (std::int64_t i = 0; i < trial.q.numel(); ++i) trial.q.set(i, 1e4 * trial.q.get(i));
    trial.run(2);
    for (const TestArray* x : {&trial.o, &trial.lse, &trial.dq, &trial.dk, &trial.dv}) {
        for (const double value : x->values()) ASSERT_TRUE(std::isfinite(value));
    }
    for (const double value : trial.o.values()) ASSERT_LE(std::abs(value), 6);  // convex sums of normal variates
}

TEST(Attention, ScratchIsLinearInTheSequenceAndEqualWhenDry) {
    StreamState state;
    Stream cpu = CpuStream{2, &state}, dry = DryStream{2, &state};
    const auto bytes = [](Stream& stream, std::int64_t length) {
        const View x = contiguous_view(nullptr, Dtype::f32, {1, length, 1, 64});
        const Attention forward{x, x, x, x, {}, true, 1};
        const AttentionGradient gradient{x, x, x, x, {}, x, x, x, x, 0, 0, 0, true, 1};
        return AttentionPlan(stream, forward).scratch() + AttentionGradientPlan(stream, gradient).scratch();
    };
    for (const std::int64_t length : {64, 1000, 4096}) EXPECT_EQ(bytes(dry, length), bytes(cpu, length));
    EXPECT_LE(bytes(cpu, 65536), 64 * bytes(cpu, 1024));
    EXPECT_LE(bytes(cpu, 65536), 2 * 65536 * 64 * sizeof(float) * 8);
}

}  // namespace attention_test
}  // namespace headroom::kernels
