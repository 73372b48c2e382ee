#include <headroom/kernels/attention/internal/sdpa.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kFewest = 64;       // queries, and keys
constexpr std::int64_t kWidest = 128;      // on any GPU
constexpr std::int64_t kVector = 8;        // halves of 16 bytes
constexpr std::uintptr_t kAlignment = 16;  // bytes

/// Bytes of a gradient for each of its query heads, of each batch: dP as halves, in tiles, or dq as f32, to which is
/// added in any order; the sums of dy * o; dk and dv, before those of the heads of a group are added.
std::int64_t bytes_per_head(const Sdpa& x) {
    const std::int64_t dp = round_up(x.queries, 64) * round_up(x.keys, 128) * 2, dq = x.queries * x.width * 4;
    const std::int64_t shared = x.group() > 1 ? 2 * x.keys * x.width * 2 : 0;
    return (x.deterministic ? dp : dq) + x.queries * 4 + shared;
}

/// Up to `most`, and dividing the whole if that costs no more than half: each size of parts needs a plan of its own.
std::int64_t even_size(std::int64_t whole, std::int64_t most) {
    if (most >= whole) return whole;
    for (std::int64_t size = most; 2 * size > most; --size) {
        if (whole % size == 0) return size;
    }
    return most;
}

bool fits(const View& x, Dtype dtype) {
    if (x.rank() != 4 || x.dtype != dtype || x.stride(3) != 1) return false;
    for (int axis = 0; axis < 3; ++axis) {
        if (x.size(axis) > 1 && (x.stride(axis) <= 0 || x.stride(axis) % kVector != 0)) return false;
    }
    return true;
}

Sdpa::Strides strides_of(const View& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

bool aligned(std::initializer_list<const View*> views) {
    for (const View* x : views) {
        if (x->data == nullptr || reinterpret_cast<std::uintptr_t>(x->data) % kAlignment != 0) return false;
    }
    return true;
}

/// What forward and gradient share; both structs name it alike.
template <class A>
std::optional<Sdpa> plan(const A& a) {
    if (!is_half(a.q.dtype) || a.q.rank() != 4 || has_extras(a)) return std::nullopt;
    for (const View* x : {&a.q, &a.k, &a.v, &a.o}) {
        if (!fits(*x, a.q.dtype)) return std::nullopt;
    }
    const Sdpa x{.causal = a.causal,
                 .stats = a.lse.data != nullptr,
                 .dtype = a.q.dtype,
                 .scale = static_cast<float>(a.scale),
                 .batch = a.q.size(0),
                 .queries = a.q.size(1),
                 .keys = a.k.size(1),
                 .heads = a.q.size(2),
                 .key_heads = a.k.size(2),
                 .width = a.q.size(3),
                 .q = strides_of(a.q),
                 .k = strides_of(a.k),
                 .v = strides_of(a.v),
                 .o = strides_of(a.o)};
    const bool sizes = x.batch > 0 && x.key_heads > 0 && x.heads > 0 && x.queries >= kFewest && x.keys >= kFewest &&
                       x.width > 0 && x.width <= kWidest && x.width % kVector == 0;
    const bool lse = a.lse.rank() == 0 || (a.lse.dtype == Dtype::f32 && a.lse.is_contiguous());
    if (!sizes || !lse || (x.causal && x.keys < x.queries) || !(x.scale > 0)) return std::nullopt;
    return x;
}

}  // namespace

Sdpa Sdpa::part(std::int64_t batches, std::int64_t groups) const {
    Sdpa result = *this;
    result.batch = batches;
    result.heads = groups * group();
    result.key_heads = groups;
    return result;
}

std::size_t Sdpa::scratch() const {
    return kSdpaCounters + (gradient ? static_cast<std::size_t>(batch * heads * bytes_per_head(*this)) : 0);
}

std::optional<Sdpa> plan_sdpa(const Attention& attention) { return plan(attention); }

std::optional<Sdpa> plan_sdpa(const AttentionGradient& gradient, const ComputeOptions& options) {
    std::optional<Sdpa> x = plan(gradient);
    if (!x || gradient.lse.rank() == 0) return std::nullopt;
    for (const View* y : {&gradient.dy, &gradient.dq, &gradient.dk, &gradient.dv}) {
        if (!fits(*y, gradient.q.dtype)) return std::nullopt;
    }
    x->gradient = true;
    x->deterministic = options.deterministic;
    x->budget = options.scratch_budget;
    x->stats = false;
    x->dy = strides_of(gradient.dy);
    x->dq = strides_of(gradient.dq);
    x->dk = strides_of(gradient.dk);
    x->dv = strides_of(gradient.dv);
    if (x->part(1, 1).scratch() > x->budget) return std::nullopt;
    const Sdpa part = largest_part(*x);  // the lse of each has to begin at a multiple of 16 bytes, too
    const bool whole = part.batch == x->batch && part.key_heads == x->key_heads;
    if (!whole && x->queries % 4 != 0) return std::nullopt;
    return x;
}

bool ready(const Attention& attention) {
    return aligned({&attention.q, &attention.k, &attention.v, &attention.o}) &&
           (attention.lse.data == nullptr || aligned({&attention.lse}));
}

bool ready(const AttentionGradient& g) {
    return g.beta_q == 0 && g.beta_k == 0 && g.beta_v == 0 &&
           aligned({&g.q, &g.k, &g.v, &g.o, &g.lse, &g.dy, &g.dq, &g.dk, &g.dv});
}

Sdpa largest_part(const Sdpa& whole) {
    if (!whole.gradient) return whole;
    const std::int64_t room = static_cast<std::int64_t>(whole.budget - std::min(whole.budget, kSdpaCounters));
    const std::int64_t group = whole.group() * bytes_per_head(whole), batch = whole.key_heads * group;
    if (batch <= room) return whole.part(even_size(whole.batch, room / batch), whole.key_heads);
    return whole.part(1, even_size(whole.key_heads, std::max<std::int64_t>(1, room / group)));
}

SdpaData data_of(const Attention& a) {
    return {.q = a.q.at(0), .k = a.k.at(0), .v = a.v.at(0), .o = a.o.at(0), .lse = a.lse.at(0)};
}

SdpaData data_of(const AttentionGradient& g, std::int64_t batch, std::int64_t key_head) {
    const std::int64_t head = key_head * (g.q.size(2) / g.k.size(2));
    const auto at = [batch](const View& x, std::int64_t i) { return x.at(batch * x.stride(0) + i * x.stride(2)); };
    return {.q = at(g.q, head),
            .k = at(g.k, key_head),
            .v = at(g.v, key_head),
            .o = at(g.o, head),
            .lse = g.lse.at((batch * g.q.size(2) + head) * g.q.size(1)),
            .dy = at(g.dy, head),
            .dq = at(g.dq, head),
            .dk = at(g.dk, key_head),
            .dv = at(g.dv, key_head)};
}

}  // namespace headroom::kernels
