#pragma once
// An attention with everything that it reads and writes, and what its results may differ from those in f64: for tests
// of its kernels on any device.
//
//     const AttentionTrial trial({1, 65, 65, 4, 2, 16, true}, Dtype::f16, Layout::gaps, random, Dtype::f32);
//     test::run<AttentionPlan>(stream, trial.forward());
//     test::run<AttentionGradientPlan>(stream, trial.gradient());
//     expect_matches(trial);
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

struct AttentionCase {
    std::int64_t batch, queries, keys, heads, key_heads, width;
    bool causal;
};

inline std::string text(const AttentionCase& c, Dtype dtype) {
    return std::string(name(dtype)) + " B " + std::to_string(c.batch) + " T " + std::to_string(c.queries) + " S " +
           std::to_string(c.keys) + " H " + std::to_string(c.heads) + " G " + std::to_string(c.key_heads) + " D " +
           std::to_string(c.width) + (c.causal ? " causal" : " full");
}

/// Masks and dropout of an attention.
struct MaskCase {
    const char* name;
    std::optional<Dtype> mask;           ///< none without
    bool batches, heads, queries, keys;  ///< the axes along which the mask is not broadcast
    bool lengths;
    float dropout;
};

inline const MaskCase kMaskCases[] = {
    {"padding mask", Dtype::boolean, true, false, false, true, false, 0},
    {"booleans", Dtype::boolean, true, true, true, true, false, 0},
    {"bias of heads", Dtype::f32, false, true, true, true, false, 0},
    {"bias of queries", Dtype::f16, true, false, true, false, false, 0},
    {"lengths", {}, false, false, false, false, true, 0},
    {"dropout", {}, false, false, false, false, false, 0.3f},
    {"all dropped", {}, false, false, false, false, false, 1},
    {"all of them", Dtype::bf16, true, true, true, true, true, 0.2f},
};

/// Of one key; of several widths, some of which are no vectors; with groups; of more queries, of which the last alone
/// sees a key.
inline const AttentionCase kOneKey[] = {
    {2, 1, 1, 3, 3, 1, true},    {1, 7, 1, 2, 1, 5, false},   {2, 1, 1, 4, 2, 16, true},
    {1, 33, 1, 2, 2, 37, false}, {1, 130, 1, 1, 1, 64, true}, {1, 3, 1, 2, 1, 130, true},
};

/// Everything that one attention reads and writes.
struct AttentionTrial {
    AttentionCase shape;
    TestArray q, k, v, o, lse, dy, dq, dk, dv;
    double scale;
    std::optional<TestArray> mask, lengths;
    AttentionDropout dropout;

    AttentionTrial(const AttentionCase& c, Dtype dtype, Layout layout, std::mt19937_64& random, Dtype gradients)
        : shape(c),
          q(dtype, {c.batch, c.queries, c.heads, c.width}, layout),
          k(dtype, {c.batch, c.keys, c.key_heads, c.width}, layout),
          v(dtype, {c.batch, c.keys, c.key_heads, c.width}, layout),
          o(dtype, q.view().shape, layout),
          lse(compute_dtype(dtype), {c.batch, c.heads, c.queries}),
          dy(dtype, q.view().shape, layout),
          dq(gradients, q.view().shape, layout),
          dk(gradients, k.view().shape, layout),
          dv(gradients, k.view().shape, layout),
          scale(1 / std::sqrt(static_cast<double>(c.width))) {
        for (TestArray* x : {&q, &k, &v, &dy}) x->fill(random);
    }

    /// Hides a fifth of what the mask says something of, and the first query's keys from it; of two batches the last
    /// has no keys.
    void hide(const MaskCase& c, std::mt19937_64& random) {
        if (c.mask) {
            const auto axis = [](bool whole, std::int64_t size) { return whole ? size : 1; };
            mask.emplace(*c.mask, Shape{axis(c.batches, shape.batch), axis(c.heads, shape.heads),
                                        axis(c.queries, shape.queries), axis(c.keys, shape.keys)});
            std::normal_distribution<double> normal;
            std::bernoulli_distribution hidden(0.2);
            const double nothing[] = {-std::numeric_limits<double>::infinity(), -1e9};
            const bool of_halves = *c.mask == Dtype::f16;
            for (std::int64_t i = 0; i < mask->numel(); ++i) {
                const bool hides = hidden(random) || (c.queries && i < mask->view().size(3));
                const double value = normal(random);
                if (*c.mask == Dtype::boolean) {
                    mask->set(i, hides ? 0 : 1);
                } else {
                    mask->set(i, hides ? nothing[of_halves ? 0 : i % 2] : value);
                }
            }
        }
        if (c.lengths) {
            lengths.emplace(shape.batch % 2 == 0 ? Dtype::i64 : Dtype::i32, Shape{shape.batch});
            for (std::int64_t b = 0; b < shape.batch; ++b)
                lengths->set(b, static_cast<double>(b == 0 ? (2 * shape.keys + 2) / 3 : 0));
        }
        dropout = {c.dropout, op_key(17, 4)};
    }

    /// What is added to the scaled score; minus infinity where the key is hidden.
    double added(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
        constexpr double hidden = -std::numeric_limits<double>::infinity();
        if (shape.causal && j > i + shape.keys - shape.queries) return hidden;
        if (lengths && static_cast<double>(j) >= lengths->get(b)) return hidden;
        if (!mask) return 0;
        const Shape& s = mask->view().shape;
        const double value = mask->get(((b % s[0] * s[1] + h % s[1]) * s[2] + i % s[2]) * s[3] + j % s[3]);
        if (mask->view().dtype == Dtype::boolean) return value != 0 ? 0 : hidden;
        return value < -1e6 ? hidden : value;
    }
    /// What dropout multiplies the probability by.
    double factor(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
        if (dropout.p == 0) return 1;
        if (dropout.p == 1) return 0;
        const std::int64_t row = (b * shape.heads + h) * shape.queries + i;
        const std::uint32_t word =
            philox(dropout.key, static_cast<std::uint64_t>(row * ((shape.keys + 3) / 4) + j / 4))[j % 4];
        return word >= dropout.p * 0x1p32 ? 1 / (1 - static_cast<double>(dropout.p)) : 0;
    }

    AttentionMask masks() const {
        AttentionMask result;
        if (mask) result.values = broadcast_to(*mask, {shape.batch, shape.heads, shape.queries, shape.keys});
        if (lengths) result.lengths = *lengths;
        return result;
    }
    kernels::Attention forward() const { return {q, k, v, o, lse, shape.causal, scale, masks(), dropout}; }
    kernels::AttentionGradient gradient(float beta = 0) const {
        return {q, k, v, o, lse, dy, dq, dk, dv, beta, beta, beta, shape.causal, scale, masks(), dropout};
    }
};

/// Results in f64, and beside each the sum of the magnitudes of its terms, which bounds what rounding can do to it.
struct AttentionReference {
    std::vector<double> o, lse, dq, dk, dv, o_size, dq_size, dk_size, dv_size;
    double largest_score = 0;
};

inline AttentionReference reference(const AttentionTrial& t) {
    const AttentionCase& c = t.shape;
    const std::vector<double> q = t.q.values(), k = t.k.values(), v = t.v.values(), dy = t.dy.values();
    AttentionReference r;
    for (auto* x : {&r.o, &r.dq, &r.o_size, &r.dq_size}) x->assign(q.size(), 0);
    for (auto* x : {&r.dk, &r.dv, &r.dk_size, &r.dv_size}) x->assign(k.size(), 0);
    r.lse.assign(static_cast<std::size_t>(c.batch * c.heads * c.queries), -std::numeric_limits<double>::infinity());
    const std::int64_t d = c.width;
    for (std::int64_t row = 0; row < c.batch * c.queries * c.heads; ++row) {
        const std::int64_t head = row % c.heads, query = row / c.heads % c.queries, batch = row / c.heads / c.queries;
        const auto key_at = [&](std::int64_t j) {
            return ((batch * c.keys + j) * c.key_heads + head / (c.heads / c.key_heads)) * d;
        };
        const auto dot = [d](const std::vector<double>& x, std::int64_t i, const std::vector<double>& y,
                             std::int64_t j) {
            double sum = 0;
            for (std::int64_t l = 0; l < d; ++l) sum += x[i + l] * y[j + l];
            return sum;
        };
        std::vector<double> p(c.keys), factor(c.keys);
        double sum = 0, largest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < c.keys; ++j) {
            p[j] = t.scale * dot(q, row * d, k, key_at(j)) + t.added(batch, head, query, j);
            factor[j] = t.factor(batch, head, query, j);
            largest = std::max(largest, p[j]);
            if (std::isfinite(p[j])) r.largest_score = std::max(r.largest_score, std::abs(p[j]));
        }
        if (std::isinf(largest)) continue;
        for (double& x : p) sum += x = std::exp(x - largest);
        r.lse[(batch * c.heads + head) * c.queries + query] = largest + std::log(sum);
        for (std::int64_t j = 0; j < c.keys; ++j) {
            p[j] /= sum;
            for (std::int64_t l = 0; l < d; ++l) {
                r.o[row * d + l] += factor[j] * p[j] * v[key_at(j) + l];
                r.o_size[row * d + l] += factor[j] * p[j] * std::abs(v[key_at(j) + l]);
            }
        }
        double delta = 0, delta_size = 0;
        for (std::int64_t l = 0; l < d; ++l) {
            delta += dy[row * d + l] * r.o[row * d + l];
            delta_size += std::abs(dy[row * d + l]) * r.o_size[row * d + l];
        }
        for (std::int64_t j = 0; j < c.keys; ++j) {
            double size = delta_size;
            for (std::int64_t l = 0; l < d; ++l) size += factor[j] * std::abs(dy[row * d + l] * v[key_at(j) + l]);
            const double ds = t.scale * p[j] * (factor[j] * dot(dy, row * d, v, key_at(j)) - delta);
            for (std::int64_t l = 0; l < d; ++l) {
                const std::int64_t at = key_at(j) + l;
                r.dv[at] += factor[j] * p[j] * dy[row * d + l];
                r.dv_size[at] += factor[j] * p[j] * std::abs(dy[row * d + l]);
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
/// to max(T, S) terms add their own.
inline double relative_error(const AttentionTrial& t, const AttentionReference& r) {
    const auto& c = t.shape;
    const double d = static_cast<double>(c.width);
    const double length = static_cast<double>(std::max(c.queries * (c.heads / c.key_heads), c.keys));
    return epsilon(t.lse.view().dtype) * ((d + 4) * (1 + r.largest_score * std::sqrt(d)) + length + 16);
}

/// `floor`: what may be lost of each element beside a share of its terms.
inline void expect_near(const char* what, const TestArray& actual, const std::vector<double>& expected,
                        const std::vector<double>& size, double relative, double before, double floor) {
    const double eps = epsilon(actual.view().dtype);
    if (actual.view().dtype == Dtype::f16) floor += 0x1p-24;
    for (std::int64_t i = 0; i < actual.numel(); ++i) {
        const double bound = relative * size[i] + eps * (std::abs(expected[i] + before) + std::abs(before)) + floor;
        ASSERT_NEAR(actual.get(i), expected[i] + before, bound) << what << " element " << i;
    }
}

/// Whether a kernel rounds probabilities, and the gradient of scores, to the operands' dtype before they are
/// multiplied; and whether dk and dv of each head of a group before they are added.
enum class Weights { exact, rounded, rounded_also_per_head };

/// Gradients were `before` and had a beta of 1. Halves are rounded twice at most on the way, each time by half an
/// epsilon: o before the gradient reads it, and a weight; of f16, small weights have an error of 2^-25 at least. Shares
/// of a group's heads are rounded once more.
inline void expect_matches(const AttentionTrial& t, double before = 0, Weights weights = Weights::exact) {
    const AttentionReference r = reference(t);
    const Dtype dtype = t.q.view().dtype;
    const double scores = relative_error(t, r), relative = scores + (is_half(dtype) ? epsilon(dtype) : 0);
    const auto floor = [&](const TestArray& x, std::int64_t terms) {
        double largest = 0;
        for (const double value : x.values()) largest = std::max(largest, std::abs(value));
        const bool small = dtype == Dtype::f16 && weights != Weights::exact;
        return small ? 0x1p-25 * static_cast<double>(terms) * largest : 0;
    };
    const bool shares = weights == Weights::rounded_also_per_head && t.shape.heads != t.shape.key_heads;
    const double shared = relative + (shares ? epsilon(dtype) / 2 : 0);
    const std::int64_t keys = t.shape.keys, queries = t.shape.queries * t.shape.heads / t.shape.key_heads;
    expect_near("o", t.o, r.o, r.o_size, relative, 0, floor(t.v, keys));
    for (std::int64_t i = 0; i < t.lse.numel(); ++i) {
        if (std::isinf(r.lse[i])) {
            ASSERT_EQ(t.lse.get(i), r.lse[i]);
        } else {
            ASSERT_NEAR(t.lse.get(i), r.lse[i], scores + epsilon(t.lse.view().dtype) * std::abs(r.lse[i]));
        }
    }
    expect_near("dq", t.dq, r.dq, r.dq_size, relative, before, t.scale * floor(t.k, keys));
    expect_near("dk", t.dk, r.dk, r.dk_size, shared, before, t.scale * floor(t.q, queries));
    expect_near("dv", t.dv, r.dv, r.dv_size, shared, before, floor(t.dy, queries));
    for (const TestArray* x : {&t.o, &t.dq, &t.dk, &t.dv}) EXPECT_TRUE(x->gaps_untouched());
}

/// Scores that share an offset, which a mask adds. They are sums and rounded as such, by an epsilon of their size,
/// before softmax sees them; what the one rounding of lse adds is no more (`relative_error`). So the offset of 1e8 is
/// for f64 alone: in f32 it leaves no digit of a score.
template <class Trial, class Run>
void expect_matches_at_offsets(Weights of_halves, const Run& run) {
    std::mt19937_64 random(20);
    for (const Dtype dtype : kFloating) {
        for (const double offset : {0.0, 1e4, 1e8}) {
            if (offset == 1e8 && dtype != Dtype::f64) continue;
            const AttentionCase c{1, 33, 40, 2, 1, 8, true};
            SCOPED_TRACE(text(c, dtype) + " offset " + std::to_string(offset));
            Trial trial(c, dtype, Layout::contiguous, random, dtype);
            trial.mask.emplace(compute_dtype(dtype), Shape{c.batch, c.heads, c.queries, c.keys});
            trial.mask->fill(random, offset);
            run(trial);
            expect_matches(trial, 0, is_half(dtype) ? of_halves : Weights::exact);
            if (testing::Test::HasFailure()) return;
        }
    }
}

/// Also where a length or the causal mask leaves one. `run` computes a trial, a `Trial`, and its gradients.
template <class Trial, class Run>
void expect_no_gradient_of_one_key(const Run& run) {
    std::mt19937_64 random(19);
    for (const AttentionCase& one : kOneKey) {
        for (const auto& mask : {kMaskCases[4], kMaskCases[5]}) {
            AttentionCase c = one;
            SCOPED_TRACE(text(c, Dtype::f32) + " " + mask.name);
            if (mask.lengths) c.batch = 1, c.keys = 40, c.causal = false;
            Trial trial(c, Dtype::f32, Layout::contiguous, random, Dtype::f32);
            trial.hide(mask, random);
            if (mask.lengths) trial.lengths->set(0, 1);
            run(trial);
            expect_matches(trial);
            for (const TestArray* x : {&trial.dq, &trial.dk})
                for (const double value : x->values()) ASSERT_EQ(value, 0);
        }
    }
}

}  // namespace headroom::kernels::test
