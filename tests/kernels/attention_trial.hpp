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

/// Everything that one attention reads and writes.
struct AttentionTrial {
    AttentionCase shape;
    TestArray q, k, v, o, lse, dy, dq, dk, dv;
    double scale;

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

    kernels::Attention forward() const { return {q, k, v, o, lse, shape.causal, scale}; }
    kernels::AttentionGradient gradient(float beta = 0) const {
        return {q, k, v, o, lse, dy, dq, dk, dv, beta, beta, beta, shape.causal, scale};
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

}  // namespace headroom::kernels::test
