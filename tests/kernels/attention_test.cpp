#include <headroom/kernels/attention/attention.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

struct Case {
    std::int64_t batch, queries, keys, heads, key_heads, width;
    bool causal;
};

std::string text(const Case& c, Dtype dtype) {
    return std::string(name(dtype)) + " B " + std::to_string(c.batch) + " T " + std::to_string(c.queries) + " S " +
           std::to_string(c.keys) + " H " + std::to_string(c.heads) + " G " + std::to_string(c.key_heads) + " D " +
           std::to_string(c.width) + (c.causal ? " causal" : " full");
}

/// One position; rests against blocks of keys (64), of queries (24, 32) and vectors; several blocks; grouped heads;
/// a key-value cache; fewer keys than queries, so that some see none; no keys.
const Case kCases[] = {
    {1, 1, 1, 1, 1, 1, true},     {2, 5, 5, 2, 2, 3, true},      {2, 64, 64, 2, 2, 32, true},
    {1, 65, 65, 1, 1, 16, true},  {1, 150, 150, 2, 1, 20, true}, {2, 33, 70, 6, 2, 8, true},
    {1, 1, 100, 4, 4, 16, true},  {1, 40, 130, 2, 1, 17, false}, {1, 130, 40, 2, 2, 5, true},
    {2, 25, 64, 3, 3, 64, false}, {1, 9, 0, 2, 1, 4, false},     {1, 3, 3, 1, 1, 130, true},
};

/// Everything that one attention reads and writes.
struct Trial {
    Case shape;
    TestArray q, k, v, o, lse, dy, dq, dk, dv;
    double scale;

    Trial(const Case& c, Dtype dtype, Layout layout, std::mt19937_64& random, Dtype gradients)
        : shape(c),
          q(dtype, {c.batch, c.queries, c.heads, c.width}, layout),
          k(dtype, {c.batch, c.keys, c.key_heads, c.width}, layout),
          v(dtype, {c.batch, c.keys, c.key_heads, c.width}, layout),
          o(dtype, q.view().shape, layout),
          lse(test::compute_dtype(dtype), {c.batch, c.heads, c.queries}),
          dy(dtype, q.view().shape, layout),
          dq(gradients, q.view().shape, layout),
          dk(gradients, k.view().shape, layout),
          dv(gradients, k.view().shape, layout),
          scale(1 / std::sqrt(static_cast<double>(c.width))) {
        for (TestArray* x : {&q, &k, &v, &dy}) x->fill(random);
    }

    Attention forward() const { return {q, k, v, o, lse, shape.causal, scale}; }
    AttentionGradient gradient(float beta = 0) const {
        return {q, k, v, o, lse, dy, dq, dk, dv, beta, beta, beta, shape.causal, scale};
    }
    void run(int threads, float beta = 0) const {
        StreamState state;
        CpuStream stream{threads, &state};
        Stream any = stream;
        with_scratch(attention_scratch(any, forward()), [&](std::byte* s) { attention(stream, forward(), s); });
        with_scratch(attention_gradient_scratch(any, gradient(beta)),
                     [&](std::byte* s) { attention_gradient(stream, gradient(beta), s); });
    }

    /// Scratch that is NaN at first, and notices being overrun.
    template <class Work>
    static void with_scratch(std::size_t bytes, Work&& work) {
        std::vector<std::byte> memory(bytes + 192, std::byte{0xff});
        auto* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
        work(scratch);
        for (std::byte* guard = scratch + bytes; guard != memory.data() + memory.size(); ++guard) {
            ASSERT_EQ(*guard, std::byte{0xff}) << "scratch overrun";
        }
    }
};

/// Results in f64, and beside each the sum of the magnitudes of its terms, which bounds what rounding can do to it.
struct Reference {
    std::vector<double> o, lse, dq, dk, dv, o_size, dq_size, dk_size, dv_size;
    double largest_score = 0;
};

Reference reference(const Trial& t) {
    const Case& c = t.shape;
    const std::vector<double> q = t.q.values(), k = t.k.values(), v = t.v.values(), dy = t.dy.values();
    Reference r;
    for (auto* x : {&r.o, &r.dq, &r.o_size, &r.dq_size}) x->assign(q.size(), 0);
    for (auto* x : {&r.dk, &r.dv, &r.dk_size, &r.dv_size}) x->assign(k.size(), 0);
    r.lse.assign(static_cast<std::size_t>(c.batch * c.heads * c.queries), -std::numeric_limits<double>::infinity());
    const std::int64_t d = c.width;
    for (std::int64_t row = 0; row < c.batch * c.queries * c.heads; ++row) {
        const std::int64_t head = row % c.heads, query = row / c.heads % c.queries, batch = row / c.heads / c.queries;
        const std::int64_t seen =
            c.causal ? std::clamp<std::int64_t>(query + 1 + c.keys - c.queries, 0, c.keys) : c.keys;
        const auto key_at = [&](std::int64_t j) {
            return ((batch * c.keys + j) * c.key_heads + head / (c.heads / c.key_heads)) * d;
        };
        const auto dot = [d](const std::vector<double>& x, std::int64_t i, const std::vector<double>& y,
                             std::int64_t j) {
            double sum = 0;
            for (std::int64_t l = 0; l < d; ++l) sum += x[i + l] * y[j + l];
            return sum;
        };
        if (seen == 0) continue;
        std::vector<double> p(seen);
        double sum = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
            p[j] = std::exp(t.scale * dot(q, row * d, k, key_at(j)));  // small numbers: no maximum needed
            sum += p[j];
            r.largest_score = std::max(r.largest_score, std::abs(std::log(p[j])));
        }
        r.lse[(batch * c.heads + head) * c.queries + query] = std::log(sum);
        for (std::int64_t j = 0; j < seen; ++j) {
            p[j] /= sum;
            for (std::int64_t l = 0; l < d; ++l) {
                r.o[row * d + l] += p[j] * v[key_at(j) + l];
                r.o_size[row * d + l] += p[j] * std::abs(v[key_at(j) + l]);
            }
        }
        double delta = 0, delta_size = 0;
        for (std::int64_t l = 0; l < d; ++l) {
            delta += dy[row * d + l] * r.o[row * d + l];
            delta_size += std::abs(dy[row * d + l]) * r.o_size[row * d + l];
        }
        for (std::int64_t j = 0; j < seen; ++j) {
            double size = delta_size;
            for (std::int64_t l = 0; l < d; ++l) size += std::abs(dy[row * d + l] * v[key_at(j) + l]);
            const double ds = t.scale * p[j] * (dot(dy, row * d, v, key_at(j)) - delta);
            for (std::int64_t l = 0; l < d; ++l) {
                const std::int64_t at = key_at(j) + l;
                r.dv[at] += p[j] * dy[row * d + l];
                r.dv_size[at] += p[j] * std::abs(dy[row * d + l]);
                r.dq[row * d + l] += ds * k[at];
                r.dq_size[row * d + l] += t.scale * p[j] * size * std::abs(k[at]);
                r.dk[at] += ds * q[row * d + l];
                r.dk_size[at] += t.scale * p[j] * size * std::abs(q[row * d + l]);
            }
        }
    }
    return r;
}

/// Scores are sums of D products, each at most `largest` or so in magnitude: their error, (D + 4) epsilon times the sum
/// of magnitudes (at most sqrt(D) times larger), goes through exp as a relative error of each probability. Sums over up
/// to max(T, S) terms add their own. o was rounded to its dtype before the gradient read it.
double relative_error(const Trial& t, const Reference& r, Dtype dtype) {
    const auto& c = t.shape;
    const double d = static_cast<double>(c.width);
    const double length = static_cast<double>(std::max(c.queries * (c.heads / c.key_heads), c.keys));
    const double eps = epsilon(test::compute_dtype(dtype));
    return eps * ((d + 4) * (1 + r.largest_score * std::sqrt(d)) + length + 16) + (is_half(dtype) ? epsilon(dtype) : 0);
}

void expect_near(const char* what, const TestArray& actual, const std::vector<double>& expected,
                 const std::vector<double>& size, double relative, double before) {
    const double eps = epsilon(actual.view().dtype);
    for (std::int64_t i = 0; i < actual.elements(); ++i) {
        const double floor = actual.view().dtype == Dtype::f16 ? 0x1p-24 : 0;
        const double bound = relative * size[i] + eps * (std::abs(expected[i] + before) + std::abs(before)) + floor;
        ASSERT_NEAR(actual.get(i), expected[i] + before, bound) << what << " element " << i;
    }
}

void expect_matches(const Trial& t, Dtype dtype, double before = 0) {
    const Reference r = reference(t);
    const double relative = relative_error(t, r, dtype);
    expect_near("o", t.o, r.o, r.o_size, relative, 0);
    for (std::int64_t i = 0; i < t.lse.elements(); ++i) {
        if (std::isinf(r.lse[i])) {
            ASSERT_EQ(t.lse.get(i), r.lse[i]);
        } else {
            ASSERT_NEAR(t.lse.get(i), r.lse[i], relative + epsilon(t.lse.view().dtype) * std::abs(r.lse[i]));
        }
    }
    expect_near("dq", t.dq, r.dq, r.dq_size, relative, before);
    expect_near("dk", t.dk, r.dk, r.dk_size, relative, before);
    expect_near("dv", t.dv, r.dv, r.dv_size, relative, before);
    for (const TestArray* x : {&t.o, &t.dq, &t.dk, &t.dv}) EXPECT_TRUE(x->gaps_untouched());
}

TEST(Attention, MatchesF64ForAnyDtypeShapeAndStrides) {
    std::mt19937_64 random(1);
    for (const Case& c : kCases) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                SCOPED_TRACE(text(c, dtype) + " layout " + std::to_string(static_cast<int>(layout)));
                const Trial trial(c, dtype, layout, random, dtype);
                trial.run(2);  // outputs and gradients were NaN: nothing of them may have been read
                expect_matches(trial, dtype);
                if (HasFatalFailure() || HasNonfatalFailure()) return;
            }
        }
    }
}

TEST(Attention, AccumulatesGradientsAlsoInF32ForHalves) {
    std::mt19937_64 random(2);
    for (const Dtype dtype : kFloating) {
        const Case c{2, 40, 70, 4, 2, 20, true};
        Trial trial(c, dtype, Layout::gaps, random, test::compute_dtype(dtype));
        for (TestArray* x : {&trial.dq, &trial.dk, &trial.dv}) {
            for (std::int64_t i = 0; i < x->elements(); ++i) x->set(i, 0.5);
        }
        SCOPED_TRACE(text(c, dtype));
        trial.run(2, 1);
        expect_matches(trial, dtype, 0.5);
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
        for (std::int64_t i = 0; i < sources[part]->elements(); ++i) {
            packed.set(i / (heads * c.width) * row + starts[part] * c.width + i % (heads * c.width),
                       sources[part]->get(i));
        }
    }
    TestArray o(Dtype::f32, trial.o.view().shape);
    StreamState state;
    CpuStream stream{2, &state};
    Stream any = stream;
    const Attention forward{slices[0], slices[1], slices[2], o, trial.lse, true, trial.scale};
    Trial::with_scratch(attention_scratch(any, forward), [&](std::byte* s) { attention(stream, forward, s); });
    const AttentionGradient gradient{slices[0],  slices[1],  slices[2], o, trial.lse, trial.dy, dslices[0],
                                     dslices[1], dslices[2], 0,         0, 0,         true,     trial.scale};
    Trial::with_scratch(attention_gradient_scratch(any, gradient),
                        [&](std::byte* s) { attention_gradient(stream, gradient, s); });
    EXPECT_EQ(o.values(), trial.o.values());
    for (int part = 0; part < 3; ++part) {
        const std::int64_t width = (part == 0 ? c.heads : c.key_heads) * c.width;
        for (std::int64_t i = 0; i < gradients[part]->elements(); ++i) {
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
        Stream any = stream;
        Trial::with_scratch(attention_gradient_scratch(any, gradient),
                            [&](std::byte* s) { attention_gradient(stream, gradient, s); });
        EXPECT_EQ(dq.memory(), wanted & 1 ? all.dq.memory() : nothing.memory());
        EXPECT_EQ(dk.values() == all.dk.values(), (wanted & 2) != 0);
        EXPECT_EQ(dv.values() == all.dv.values(), (wanted & 4) != 0);
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
    std::mt19937_64 random(6);
    const Case c{1, 90, 90, 1, 1, 16, true};
    Trial trial(c, Dtype::f32, Layout::contiguous, random, Dtype::f32);
    for (std::int64_t i = 0; i < trial.q.elements(); ++i) trial.q.set(i, 1e4 * trial.q.get(i));
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
        return attention_scratch(stream, forward) + attention_gradient_scratch(stream, gradient);
    };
    for (const std::int64_t length : {64, 1000, 4096}) EXPECT_EQ(bytes(dry, length), bytes(cpu, length));
    EXPECT_LE(bytes(cpu, 65536), 64 * bytes(cpu, 1024));
    EXPECT_LE(bytes(cpu, 65536), 2 * 65536 * 64 * sizeof(float) * 8);
}

}  // namespace
}  // namespace headroom::kernels
