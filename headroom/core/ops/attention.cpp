#include <headroom/core/ops/attention.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

double resolve(double scale, std::int64_t width) {
    return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(width, 1)));
}

/// Heads [first, first + count) of a packed view, as [B, T, count, D].
View heads_of(const View& packed, std::int64_t first, std::int64_t count, std::int64_t width) {
    const std::int64_t step = packed.stride(2);
    return {packed.at(first * width * step),
            packed.dtype,
            {packed.size(0), packed.size(1), count, width},
            {packed.stride(0), packed.stride(1), width * step, step}};
}

struct Packed {
    View q, k, v;
};
Packed unpack(const View& packed, const AttentionPacked::Attrs& attrs) {
    const std::int64_t h = attrs.heads, g = attrs.kv_heads, width = packed.size(2) / (h + 2 * g);
    return {heads_of(packed, 0, h, width), heads_of(packed, h, g, width), heads_of(packed, h + g, g, width)};
}

/// The view of [B, T, H * D] as [B, T, H, D].
View split_heads(const View& x, std::int64_t heads) { return heads_of(x, 0, heads, x.size(2) / heads); }

void check(const Array& qkv, const AttentionPacked::Attrs& attrs) {
    check_floating("attention_packed", {{"qkv", qkv}});
    if (attrs.heads < 1 || attrs.kv_heads < 1 || attrs.heads % attrs.kv_heads != 0) {
        throw ShapeError(fmt::format("attention_packed: {} heads must be a multiple of {} key heads, both at least 1",
                                     attrs.heads, attrs.kv_heads));
    }
    const std::int64_t heads = attrs.heads + 2 * attrs.kv_heads;
    if (qkv.rank() != 3 || qkv.size(2) % heads != 0) {
        throw ShapeError(fmt::format("attention_packed: qkv {} must be [B, T, {} * D] for {} heads and {} key heads",
                                     qkv.shape().to_string(), heads, attrs.heads, attrs.kv_heads));
    }
}

void check(const Array& q, const Array& k, const Array& v) {
    check_one_dtype("attention", {{"q", q}, {"k", k}, {"v", v}});
    const bool fit = q.rank() == 4 && k.rank() == 4 && v.shape() == k.shape() && q.size(0) == k.size(0) &&
                     q.size(3) == k.size(3) && k.size(2) > 0 && q.size(2) % k.size(2) == 0;
    if (!fit) {
        throw ShapeError(
            fmt::format("attention: q {}, k {}, v {} do not fit; they must be [B, T, H, D] and twice "
                        "[B, S, G, D], H a multiple of G",
                        q.shape().to_string(), k.shape().to_string(), v.shape().to_string()));
    }
}

}  // namespace

Result<AttentionPacked::Saved, Array> AttentionPacked::forward(Exec& exec, const Attrs& attrs, const Array& qkv) {
    check(qkv, attrs);
    const Packed in = unpack(qkv.view(), attrs);
    const std::int64_t batch = qkv.size(0), time = qkv.size(1), width = in.q.size(3);
    Array o = exec.empty({batch, time, attrs.heads * width}, qkv.dtype);
    Array lse = exec.empty({batch, attrs.heads, time}, compute_dtype(qkv.dtype));
    exec.run<kernels::AttentionPlan>(kernels::Attention{.q = in.q,
                                                        .k = in.k,
                                                        .v = in.v,
                                                        .o = split_heads(o.view(), attrs.heads),
                                                        .lse = lse.view(),
                                                        .causal = attrs.causal,
                                                        .scale = resolve(attrs.scale, width)});
    return {{qkv, o, std::move(lse)}, o};
}

void AttentionPacked::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto target = sink.destination(0);
    if (!target) return;
    const Packed in = unpack(saved.qkv.view(), attrs), out = unpack(target.view(), attrs);
    exec.run<kernels::AttentionGradientPlan>(kernels::AttentionGradient{.q = in.q,
                                                                        .k = in.k,
                                                                        .v = in.v,
                                                                        .o = split_heads(saved.o.view(), attrs.heads),
                                                                        .lse = saved.lse.view(),
                                                                        .dy = split_heads(dy.view(), attrs.heads),
                                                                        .dq = out.q,
                                                                        .dk = out.k,
                                                                        .dv = out.v,
                                                                        .beta_q = target.beta,
                                                                        .beta_k = target.beta,
                                                                        .beta_v = target.beta,
                                                                        .causal = attrs.causal,
                                                                        .scale = resolve(attrs.scale, in.q.size(3))});
}

std::vector<Sample<AttentionPacked::Attrs>> AttentionPacked::samples() {
    using I = SampleInput;
    return {
        {"causal", {.heads = 2, .kv_heads = 2, .causal = true}, {I::normal({1, 4, 12})}},
        {"full", {.heads = 1, .kv_heads = 1}, {I::normal({2, 3, 6})}},
        {"grouped", {.heads = 2, .kv_heads = 1, .causal = true}, {I::normal({1, 5, 8})}},
        {"scaled", {.heads = 1, .kv_heads = 1, .scale = 0.3}, {I::normal({1, 5, 9})}},
        {"one position", {.heads = 2, .kv_heads = 2, .causal = true}, {I::normal({2, 1, 6})}},
        {"no batches", {.heads = 2, .kv_heads = 2}, {I::normal({0, 4, 12})}},
        {"no positions", {.heads = 2, .kv_heads = 2}, {I::normal({2, 0, 12})}},
        {"width", {.heads = 2, .kv_heads = 2}, {I::normal({1, 4, 10})}, "qkv [1, 4, 10] must be [B, T, 6 * D]"},
        {"rank", {.heads = 1, .kv_heads = 1}, {I::normal({4, 12})}, "qkv [4, 12] must be [B, T, 3 * D]"},
        {"heads", {.heads = 3, .kv_heads = 2}, {I::normal({1, 4, 14})}, "attention_packed: 3 heads"},
        {"integers", {}, {I::index({1, 4, 12}, 3)}, "attention_packed: qkv must be floating"},
    };
}

Result<Attention::Saved, Array> Attention::forward(Exec& exec, const Attrs& attrs, const Array& q, const Array& k,
                                                   const Array& v) {
    check(q, k, v);
    Array o = exec.empty(q.shape(), q.dtype);
    Array lse = exec.empty({q.size(0), q.size(2), q.size(1)}, compute_dtype(q.dtype));
    exec.run<kernels::AttentionPlan>(kernels::Attention{.q = q.view(),
                                                        .k = k.view(),
                                                        .v = v.view(),
                                                        .o = o.view(),
                                                        .lse = lse.view(),
                                                        .causal = attrs.causal,
                                                        .scale = resolve(attrs.scale, q.size(3))});
    return {{q, k, v, o, std::move(lse)}, o};
}

void Attention::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    JointTargets targets(exec, sink);
    const JointTarget& dq = targets.ask(0);
    const JointTarget& dk = targets.ask(1);
    const JointTarget& dv = targets.ask(2);
    exec.run<kernels::AttentionGradientPlan>(
        kernels::AttentionGradient{.q = saved.q.view(),
                                   .k = saved.k.view(),
                                   .v = saved.v.view(),
                                   .o = saved.o.view(),
                                   .lse = saved.lse.view(),
                                   .dy = dy.view(),
                                   .dq = dq.view,
                                   .dk = dk.view,
                                   .dv = dv.view,
                                   .beta_q = dq.beta,
                                   .beta_k = dk.beta,
                                   .beta_v = dv.beta,
                                   .causal = attrs.causal,
                                   .scale = resolve(attrs.scale, saved.q.size(3))});
}

std::vector<Sample<Attention::Attrs>> Attention::samples() {
    using I = SampleInput;
    return {
        {"causal", {.causal = true}, {I::normal({1, 3, 2, 2}), I::normal({1, 3, 2, 2}), I::normal({1, 3, 2, 2})}},
        {"cross", {}, {I::normal({2, 2, 1, 3}), I::normal({2, 4, 1, 3}), I::normal({2, 4, 1, 3})}},
        {"cached", {.causal = true}, {I::normal({1, 2, 2, 2}), I::normal({1, 5, 1, 2}), I::normal({1, 5, 1, 2})}},
        {"blind", {.causal = true}, {I::normal({1, 4, 1, 2}), I::normal({1, 2, 1, 2}), I::normal({1, 2, 1, 2})}},
        {"scaled", {.scale = 2}, {I::normal({1, 2, 1, 2}), I::normal({1, 3, 1, 2}), I::normal({1, 3, 1, 2})}},
        {"no queries", {}, {I::normal({1, 0, 1, 2}), I::normal({1, 3, 1, 2}), I::normal({1, 3, 1, 2})}},
        {"no keys", {}, {I::normal({1, 2, 1, 2}), I::normal({1, 0, 1, 2}), I::normal({1, 0, 1, 2})}},
        {"widths", {}, {I::normal({1, 3, 1, 2}), I::normal({1, 3, 1, 3}), I::normal({1, 3, 1, 3})}, "attention: q"},
        {"heads", {}, {I::normal({1, 3, 3, 2}), I::normal({1, 3, 2, 2}), I::normal({1, 3, 2, 2})}, "attention: q"},
        {"rank", {}, {I::normal({3, 1, 2}), I::normal({3, 1, 2}), I::normal({3, 1, 2})}, "attention: q"},
        {"integers",
         {},
         {I::index({1, 3, 1, 2}, 3), I::normal({1, 3, 1, 2}), I::normal({1, 3, 1, 2})},
         "attention: q must be floating, got i64"},
    };
}

}  // namespace ops

Tensor attention_packed(Tensor qkv, std::int64_t heads, std::int64_t kv_heads, bool causal, double scale) {
    return apply<ops::AttentionPacked>({heads, kv_heads, causal, scale}, std::move(qkv));
}

Tensor attention(Tensor q, Tensor k, Tensor v, bool causal, double scale) {
    return apply<ops::Attention>({causal, scale}, std::move(q), std::move(k), std::move(v));
}

}  // namespace headroom
