#include <headroom/core/ops/attention.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/draw_guard.hpp>
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

/// Of queries, keys and values, or of their gradients: [B, T, H, D].
struct Heads {
    View q, k, v;
};
Heads unpack(const View& packed, const AttentionPacked::Attrs& attrs) {
    const std::int64_t h = attrs.heads, g = attrs.kv_heads, width = packed.size(2) / (h + 2 * g);
    return {heads_of(packed, 0, h, width), heads_of(packed, h, g, width), heads_of(packed, h + g, g, width)};
}

/// The masks of a call whose scores are [B, H, T, S].
kernels::AttentionMask masks_of(const Array& mask, const Array& lengths, const Shape& scores) {
    kernels::AttentionMask result;
    if (mask.defined()) result.values = kernels::broadcast_to(mask.view(), scores);
    if (lengths.defined()) result.lengths = lengths.view();
    return result;
}
kernels::AttentionMask checked_masks(const char* op, const Array& mask, const Array& lengths, const Shape& scores) {
    if (mask.defined()) {
        if (!is_floating(mask.dtype) && mask.dtype != Dtype::boolean) {
            throw DtypeError(fmt::format("{}: mask must be bool or floating, got {}", op, name(mask.dtype)));
        }
        bool fits = mask.rank() <= scores.rank();
        for (int i = 1; i <= mask.rank() && fits; ++i) {
            const std::int64_t size = mask.size(mask.rank() - i);
            fits = size == 1 || size == scores[scores.rank() - i];
        }
        if (!fits) {
            throw ShapeError(fmt::format("{}: mask {} must broadcast to {}, the shape [B, H, T, S] of the scores", op,
                                         mask.shape().to_string(), scores.to_string()));
        }
    }
    if (lengths.defined()) {
        check_index(op, {"lengths", lengths});
        check_form(op, {"lengths", lengths}, lengths.shape() == Shape{scores[0]}, "[B], one for each sequence");
    }
    return masks_of(mask, lengths, scores);
}

Shape scores_of(const View& q, const View& k) { return {q.size(0), q.size(2), q.size(1), k.size(1)}; }

/// The view of [B, T, H * D] as [B, T, H, D].
View split_heads(const View& x, std::int64_t heads) { return heads_of(x, 0, heads, x.size(2) / heads); }

/// `Attrs`, `Saved`: those of either op. `o` and `dy` are [B, T, H, D].
template <class Attrs>
void run_attention(Exec& exec, const Attrs& attrs, const Heads& in, const kernels::AttentionMask& mask, const View& o,
                   const Array& lse) {
    exec.run<kernels::AttentionPlan>(kernels::Attention{.q = in.q,
                                                        .k = in.k,
                                                        .v = in.v,
                                                        .o = o,
                                                        .lse = lse.view(),
                                                        .causal = attrs.causal,
                                                        .scale = resolve(attrs.scale, in.q.size(3)),
                                                        .mask = mask,
                                                        .dropout = attrs.dropout});
}
template <class Attrs, class Saved>
void run_gradient(Exec& exec, const Attrs& attrs, const Saved& saved, const Heads& in, const View& o, const View& dy,
                  const JointTarget& dq, const JointTarget& dk, const JointTarget& dv) {
    exec.run<kernels::AttentionGradientPlan>(
        kernels::AttentionGradient{.q = in.q,
                                   .k = in.k,
                                   .v = in.v,
                                   .o = o,
                                   .lse = saved.lse.view(),
                                   .dy = dy,
                                   .dq = dq.view,
                                   .dk = dk.view,
                                   .dv = dv.view,
                                   .beta_q = dq.beta,
                                   .beta_k = dk.beta,
                                   .beta_v = dv.beta,
                                   .causal = attrs.causal,
                                   .scale = resolve(attrs.scale, in.q.size(3)),
                                   .mask = masks_of(saved.mask, saved.lengths, scores_of(in.q, in.k)),
                                   .dropout = attrs.dropout});
}

/// Two products, and five in backward, of each query and the keys that it sees, whatever masks hide. `scores` [B, H, T,
/// S], `width` D.
Operations operations_of(const Shape& scores, std::int64_t width, bool causal) {
    const auto queries = static_cast<double>(scores[2]), keys = static_cast<double>(scores[3]);
    const double unseen = causal && keys > 0 ? std::min((queries - 1) / (2 * keys), 1.0) : 0;  // the last sees all
    const double product = 2 * elements_of(scores) * (1 - unseen) * static_cast<double>(width);
    return {2 * product, 5 * product};
}

void check(const Array& qkv, const AttentionPacked::Attrs& attrs) {
    check_floating("attention_packed", {{"qkv", qkv}});
    if (attrs.heads < 1 || attrs.kv_heads < 1 || attrs.heads % attrs.kv_heads != 0) {
        throw ShapeError(
            fmt::format("attention_packed: {} heads must be a multiple of {} key heads, and both at least 1",
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
            fmt::format("attention: q {}, k {} and v {} do not fit; q must be [B, T, H, D], k and v [B, S, G, D], with "
                        "H a multiple of G",
                        q.shape().to_string(), k.shape().to_string(), v.shape().to_string()));
    }
}

}  // namespace

OpResult<AttentionPacked::Saved, Array> AttentionPacked::forward(Exec& exec, const Attrs& attrs, const Array& qkv,
                                                                 const Array& mask, const Array& lengths) {
    check(qkv, attrs);
    check_range("attention_packed", "dropout", attrs.dropout.p, 0, 1);
    const Heads in = unpack(qkv.view(), attrs);
    const kernels::AttentionMask masks = checked_masks("attention_packed", mask, lengths, scores_of(in.q, in.k));
    const std::int64_t batch = qkv.size(0), time = qkv.size(1), width = in.q.size(3);
    Array o = exec.empty({batch, time, attrs.heads * width}, qkv.dtype);
    Array lse = exec.empty({batch, attrs.heads, time}, compute_dtype(qkv.dtype));
    run_attention(exec, attrs, in, masks, split_heads(o.view(), attrs.heads), lse);
    return {{qkv, mask, lengths, o, std::move(lse)}, o};
}

void AttentionPacked::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto target = sink.destination(0);
    if (!target) return;
    const Heads in = unpack(saved.qkv.view(), attrs), out = unpack(target.view(), attrs);
    run_gradient(exec, attrs, saved, in, split_heads(saved.o.view(), attrs.heads), split_heads(dy.view(), attrs.heads),
                 {out.q, target.beta, true}, {out.k, target.beta, true}, {out.v, target.beta, true});
}

Operations AttentionPacked::operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape>) {
    const Shape& qkv = inputs[0];  // [B, T, (H + 2 G) D]
    const std::int64_t width = qkv[2] / (attrs.heads + 2 * attrs.kv_heads);
    return operations_of({qkv[0], attrs.heads, qkv[1], qkv[1]}, width, attrs.causal);
}

std::vector<Sample<AttentionPacked::Attrs>> AttentionPacked::samples() {
    using I = SampleInput;
    const auto plain = [](Shape qkv) { return std::vector{I::normal(qkv), I::none(), I::none()}; };
    const auto masked = [](Shape qkv, const I& mask) { return std::vector{I::normal(qkv), mask, I::none()}; };
    const kernels::AttentionDropout dropout{0.4f, kernels::op_key(3, 7)};
    return {
        {"causal", {.heads = 2, .kv_heads = 2, .causal = true}, plain({1, 4, 12})},
        {"full", {.heads = 1, .kv_heads = 1}, plain({2, 3, 6})},
        {"grouped", {.heads = 2, .kv_heads = 1, .causal = true}, plain({1, 5, 8})},
        {"scaled", {.heads = 1, .kv_heads = 1, .scale = 0.3}, plain({1, 5, 9})},
        {"one position", {.heads = 2, .kv_heads = 2, .causal = true}, plain({2, 1, 6})},
        {"no batches", {.heads = 2, .kv_heads = 2}, plain({0, 4, 12})},
        {"no positions", {.heads = 2, .kv_heads = 2}, plain({2, 0, 12})},
        {"a mask of keys", {.heads = 2, .kv_heads = 2}, masked({2, 4, 12}, I::boolean({2, 1, 1, 4}))},
        {"a bias of heads",
         {.heads = 2, .kv_heads = 1, .causal = true},
         masked({2, 4, 8}, I::normal({2, 4, 4}).without_gradient())},
        {"lengths", {.heads = 2, .kv_heads = 2}, {I::normal({3, 4, 12}), I::none(), I::index({3}, 5)}},
        {"dropout", {.heads = 2, .kv_heads = 2, .dropout = dropout}, plain({2, 5, 12})},
        {"all of them",
         {.heads = 2, .kv_heads = 2, .causal = true, .dropout = dropout},
         {I::normal({2, 5, 12}), I::boolean({5, 5}), I::index({2}, 6)}},
        {"width", {.heads = 2, .kv_heads = 2}, plain({1, 4, 10}), "qkv [1, 4, 10] must be [B, T, 6 * D]"},
        {"rank", {.heads = 1, .kv_heads = 1}, plain({4, 12}), "qkv [4, 12] must be [B, T, 3 * D]"},
        {"heads", {.heads = 3, .kv_heads = 2}, plain({1, 4, 14}), "attention_packed: 3 heads"},
        {"integers", {}, {I::index({1, 4, 12}, 3), I::none(), I::none()}, "attention_packed: qkv must be floating"},
        {"another length",
         {.heads = 2, .kv_heads = 2},
         masked({2, 4, 12}, I::boolean({2, 1, 1, 5})),
         "mask [2, 1, 1, 5] must broadcast to [2, 2, 4, 4], the shape [B, H, T, S] of the scores"},
        {"a mask of integers",
         {.heads = 2, .kv_heads = 2},
         masked({2, 4, 12}, I::index({4, 4}, 2)),
         "attention_packed: mask must be bool or floating, got i64"},
        {"lengths of another batch",
         {.heads = 2, .kv_heads = 2},
         {I::normal({3, 4, 12}), I::none(), I::index({2}, 5)},
         "lengths [2] must be [B], one for each sequence"},
        {"floating lengths",
         {.heads = 2, .kv_heads = 2},
         {I::normal({3, 4, 12}), I::none(), I::normal({3})},
         "attention_packed: lengths must be i32 or i64"},
        {"no probability", {.dropout = {1.5f, {}}}, plain({1, 4, 12}), "must be in [0, 1]"},
    };
}

OpResult<Attention::Saved, Array> Attention::forward(Exec& exec, const Attrs& attrs, const Array& q, const Array& k,
                                                     const Array& v, const Array& mask, const Array& lengths) {
    check(q, k, v);
    check_range("attention", "dropout", attrs.dropout.p, 0, 1);
    const kernels::AttentionMask masks = checked_masks("attention", mask, lengths, scores_of(q.view(), k.view()));
    Array o = exec.empty(q.shape(), q.dtype);
    Array lse = exec.empty({q.size(0), q.size(2), q.size(1)}, compute_dtype(q.dtype));
    run_attention(exec, attrs, {q.view(), k.view(), v.view()}, masks, o.view(), lse);
    return {{q, k, v, mask, lengths, o, std::move(lse)}, o};
}

void Attention::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    JointTargets targets(exec, sink);
    const JointTarget& dq = targets.ask(0);
    const JointTarget& dk = targets.ask(1);
    const JointTarget& dv = targets.ask(2);
    run_gradient(exec, attrs, saved, {saved.q.view(), saved.k.view(), saved.v.view()}, saved.o.view(), dy.view(), dq,
                 dk, dv);
}

Operations Attention::operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape>) {
    const Shape &q = inputs[0], &k = inputs[1];
    return operations_of({q[0], q[2], q[1], k[1]}, q[3], attrs.causal);
}

std::vector<Sample<Attention::Attrs>> Attention::samples() {
    using I = SampleInput;
    const auto with = [](Shape q, Shape kv, const I& mask, const I& lengths) {
        return std::vector{I::normal(q), I::normal(kv), I::normal(kv), mask, lengths};
    };
    const auto plain = [&](Shape q, Shape kv) { return with(q, kv, I::none(), I::none()); };
    const kernels::AttentionDropout dropout{0.4f, kernels::op_key(5, 2)};
    return {
        {"causal", {.causal = true}, plain({1, 3, 2, 2}, {1, 3, 2, 2})},
        {"cross", {}, plain({2, 2, 1, 3}, {2, 4, 1, 3})},
        {"cached", {.causal = true}, plain({1, 2, 2, 2}, {1, 5, 1, 2})},
        {"blind", {.causal = true}, plain({1, 4, 1, 2}, {1, 2, 1, 2})},
        {"scaled", {.scale = 2}, plain({1, 2, 1, 2}, {1, 3, 1, 2})},
        {"no queries", {}, plain({1, 0, 1, 2}, {1, 3, 1, 2})},
        {"no keys", {}, plain({1, 2, 1, 2}, {1, 0, 1, 2})},
        {"a mask", {}, with({2, 2, 2, 3}, {2, 4, 1, 3}, I::boolean({2, 1, 2, 4}), I::none())},
        {"a bias", {}, with({2, 2, 2, 3}, {2, 4, 1, 3}, I::normal({2, 1, 4}).without_gradient(), I::none())},
        {"lengths", {}, with({3, 2, 1, 2}, {3, 4, 1, 2}, I::none(), I::index({3}, 5))},
        {"dropout", {.dropout = dropout}, plain({2, 3, 2, 2}, {2, 6, 2, 2})},
        {"widths", {}, plain({1, 3, 1, 2}, {1, 3, 1, 3}), "attention: q"},
        {"heads", {}, plain({1, 3, 3, 2}, {1, 3, 2, 2}), "attention: q"},
        {"rank", {}, plain({3, 1, 2}, {3, 1, 2}), "attention: q"},
        {"integers",
         {},
         {I::index({1, 3, 1, 2}, 3), I::normal({1, 3, 1, 2}), I::normal({1, 3, 1, 2}), I::none(), I::none()},
         "attention: q must be floating, got i64"},
        {"a mask of too many axes",
         {},
         with({2, 2, 2, 3}, {2, 4, 1, 3}, I::boolean({1, 2, 1, 2, 4}), I::none()),
         "must broadcast to [2, 2, 2, 4]"},
    };
}

}  // namespace ops

namespace {

struct Extras {
    Tensor mask, lengths;
    kernels::AttentionDropout dropout;
};

/// What the options say beside `causal` and the scale; x: of the call's context.
Extras extras_of(const char* op, const Tensor& x, AttentionOptions&& options) {
    AttentionMask& mask = options.mask;
    if (mask.scores.defined() && mask.keys.defined()) {
        throw Error(
            fmt::format("{}: got a mask of scores and a mask of keys; combine them into one mask of scores", op));
    }
    if (mask.scores.defined() && mask.scores.requires_grad()) {
        throw Error(fmt::format("{}: the mask must not require a gradient; call detach() on it", op));
    }
    Extras extras{std::move(mask.scores), std::move(mask.lengths), {}};
    if (mask.keys.defined()) {
        if (mask.keys.dtype() != Dtype::boolean) {
            throw DtypeError(fmt::format("{}: the mask of keys must be bool, got {}", op, name(mask.keys.dtype())));
        }
        check_form(op, {"the mask of keys", mask.keys}, mask.keys.rank() == 2, "[B, S]");
        extras.mask = mask.keys.unsqueeze(1).unsqueeze(1);
    }
    check_range(op, "dropout", options.dropout, 0, 1);
    if (options.dropout != 0) extras.dropout = {static_cast<float>(options.dropout), x.context().next_random()};
    return extras;
}

}  // namespace

Tensor attention_packed(Tensor qkv, std::int64_t heads, std::int64_t kv_heads, AttentionOptions options) {
    check_defined("attention_packed", {{"qkv", qkv}});
    ops::AttentionPacked::Attrs attrs{heads, kv_heads, options.causal, options.scale, {}};
    const ops::DrawGuard guard(qkv.context());
    Extras extras = extras_of("attention_packed", qkv, std::move(options));
    attrs.dropout = extras.dropout;
    return apply<ops::AttentionPacked>(attrs, std::move(qkv), std::move(extras.mask), std::move(extras.lengths));
}

Tensor attention_packed(Tensor qkv, std::int64_t heads, std::int64_t kv_heads, bool causal, double scale) {
    return attention_packed(std::move(qkv), heads, kv_heads, {.causal = causal, .scale = scale});
}

Tensor attention(Tensor q, Tensor k, Tensor v, AttentionOptions options) {
    check_defined("attention", {{"q", q}, {"k", k}, {"v", v}});
    ops::Attention::Attrs attrs{options.causal, options.scale, {}};
    const ops::DrawGuard guard(q.context());
    Extras extras = extras_of("attention", q, std::move(options));
    attrs.dropout = extras.dropout;
    return apply<ops::Attention>(attrs, std::move(q), std::move(k), std::move(v), std::move(extras.mask),
                                 std::move(extras.lengths));
}

Tensor attention(Tensor q, Tensor k, Tensor v, bool causal, double scale) {
    return attention(std::move(q), std::move(k), std::move(v), {.causal = causal, .scale = scale});
}

}  // namespace headroom
