#include <algorithm>
#include <cmath>
#include <limits>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/block.hpp>
#include <headroom/kernels/attention/internal/destination.hpp>
#include <headroom/kernels/attention/internal/masking.hpp>
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

/// Blocks of one thread: of one (batch, key head) the keys both ways, the values transposed, and the gradients of both
/// where they can't be summed in place.
template <class T>
struct Workspace {
    T *keys_transposed, *values_transposed, *keys, *dkeys, *dvalues;
    T *queries, *dy, *dqueries, *probabilities, *dscores, *row_buffer;

    template <class Place>
    static void lay_out(const AttentionGradient& gradient, const Geometry& g, Place&& place) {
        const std::int64_t row = padded<T>(g.width), keys = g.padded_keys();
        place(&Workspace::keys_transposed, padded<T>(keys * g.width));
        place(&Workspace::values_transposed, padded<T>(keys * g.width));
        place(&Workspace::keys, keys * row);
        place(&Workspace::dkeys, sums_in_place<T>(gradient.dk) ? 0 : keys * row);
        place(&Workspace::dvalues, sums_in_place<T>(gradient.dv) ? 0 : keys * row);
        place(&Workspace::queries, kQueryBlock * row);
        place(&Workspace::dy, kQueryBlock * row);
        place(&Workspace::dqueries, kQueryBlock * row);
        place(&Workspace::probabilities, kQueryBlock * kKeyBlock);
        place(&Workspace::dscores, kQueryBlock * kKeyBlock);
        place(&Workspace::row_buffer, row);
    }
    static std::size_t elements(const AttentionGradient& gradient, const Geometry& g) {
        std::int64_t total = 0;
        lay_out(gradient, g, [&](auto, std::int64_t count) { total += count; });
        return static_cast<std::size_t>(total);
    }
    Workspace(const AttentionGradient& gradient, const Geometry& g, std::byte* memory) {
        T* next = reinterpret_cast<T*>(memory);
        lay_out(gradient, g, [&](auto member, std::int64_t count) {
            this->*member = next;
            next += count;
        });
    }
};

/// What the queries at hand need of the forward: the sums of dy * o, and the logarithm of the sum of exponentials.
template <class T>
struct Rows {
    T delta[kQueryBlock];
    T lse[kQueryBlock];
};

/// The dot product of two padded rows.
template <class T>
T dot(const T* a, const T* b, std::int64_t width) {
    Vector<T> sums = load_vector(a) * load_vector(b);
    for (std::int64_t i = kLanes<T>; i < width; i += kLanes<T>) sums += load_vector(a + i) * load_vector(b + i);
    return sum<T>(sums);
}

/// One row of `columns` scores, of which `seen` are visible, before `exponent` multiplies them: they become
/// probabilities, and the gradient of the probabilities that of the scores before scaling; zero where hidden, and on to
/// `width`. `factor(j)`: what dropout multiplied the probability of key j by.
template <class T, class Factor>
void differentiate_row(T* scores, T* dscores, std::int64_t seen, std::int64_t columns, std::int64_t width, T exponent,
                       T scale, T lse, T delta, Factor&& factor) {
    for (std::int64_t j = 0; j < columns; j += kLanes<T>) {
        const T limit = static_cast<T>(seen - j);
        for (std::int64_t l = 0; l < kLanes<T>; ++l) {
            const bool visible = kLaneNumbers<T>.values[l] < limit;
            const T probability = math::exp(exponent * scores[j + l] - lse);
            const T dscore = scale * probability * (factor(j + l) * dscores[j + l] - delta);
            scores[j + l] = visible ? factor(j + l) * probability : T{0};
            dscores[j + l] = visible ? dscore : T{0};
        }
    }
    for (std::int64_t j = columns; j < width; j += kLanes<T>) {
        store_vector<T>(Vector<T>{}, scores + j);
        store_vector<T>(Vector<T>{}, dscores + j);
    }
}

template <class T>
struct HeadGradient {
    const AttentionGradient& gradient;
    Geometry g;
    std::int64_t batch;
    std::int64_t head;
    Workspace<T> w;
    const Destination<T>& dk;
    const Destination<T>& dv;
    Masking<T> masking{gradient, batch, head};

    /// `known`: keys to whose gradients something was summed already.
    void queries(std::int64_t first, std::int64_t count, std::int64_t& known) const {
        const std::int64_t row = padded<T>(g.width);
        pack_rows(gradient.q, batch, first, count, head, w.queries, row);
        pack_rows(gradient.dy, batch, first, count, head, w.dy, row);
        pack_rows(gradient.o, batch, first, count, head, w.dqueries, row);
        Rows<T> rows;
        const View& lse = gradient.lse;
        for (std::int64_t i = 0; i < count; ++i) {
            rows.delta[i] = dot(w.dqueries + i * row, w.dy + i * row, row);
            const T found = load_one<T>(
                lse.at(batch * lse.stride(0) + head * lse.stride(1) + (first + i) * lse.stride(2)), lse.dtype);
            rows.lse[i] = found == -std::numeric_limits<T>::infinity() ? T{0} : found;  // saw no key
        }
        const Destination<T> dq(gradient.dq, batch, head, first, count, gradient.beta_q, w.dqueries);
        const std::int64_t seen = g.visible(first + count - 1);
        for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
            block({g, first, count, key, std::min(kKeyBlock, seen - key)}, rows, dq, known);
        }
        if (seen == 0) dq.clear(0, count);
        dq.finish(w.row_buffer);
    }

    void block(const Block& block, const Rows<T>& rows, const Destination<T>& dq, std::int64_t& known) const {
        const std::int64_t row = padded<T>(g.width), key = block.first_key, end = key + block.keys;
        block.scores(w.queries, row, w.keys_transposed + key * g.width, w.probabilities);
        block.scores(w.dy, row, w.values_transposed + key * g.width, w.dscores);
        differentiate(block, rows);
        if (known > key && known < end) {  // only a part of the block was seen before
            dk.clear(known, end);
            dv.clear(known, end);
        }
        if (dv.wanted()) {
            block.per_key(w.probabilities, w.dy, row, dv.row(key), dv.stride(), dv.accumulates(known > key));
        }
        if (dk.wanted()) {
            block.per_key(w.dscores, w.queries, row, dk.row(key), dk.stride(), dk.accumulates(known > key));
        }
        if (dq.wanted()) {
            block.per_query(w.dscores, w.keys + key * row, row, dq.row(0), dq.stride(), dq.accumulates(key != 0));
        }
        known = std::max(known, end);
    }

    /// Scores and the gradient of what dropout made of their probabilities become these, and the gradient of scores.
    void differentiate(const Block& block, const Rows<T>& rows) const {
        const auto scale = static_cast<T>(gradient.scale);
        if (masking.adds()) masking.add(block, scale, w.probabilities);
        const T exponent = masking.adds() ? T{1} : scale;
        for (std::int64_t i = 0; i < block.queries; ++i) {
            const bool alone = g.visible(block.first_query + i) == 1;  // a softmax that is 1 whatever the score
            const auto row = [&](auto&& factor) {
                differentiate_row(w.probabilities + i * kKeyBlock, w.dscores + i * kKeyBlock, block.seen(i),
                                  block.columns<T>(i), padded<T>(block.keys), exponent, alone ? T{0} : scale,
                                  rows.lse[i], rows.delta[i], factor);
            };
            if (masking.drops()) {
                RandomWords generator;
                const std::uint32_t* words = masking.words(block, i, generator);
                row([&](std::int64_t j) { return masking.factor(words[j]); });
            } else {
                row([](std::int64_t) { return T{1}; });
            }
        }
    }
};

/// One (batch, key head) with all its query heads, in their order.
template <class T>
void compute_group(const AttentionGradient& gradient, const Geometry& whole, std::int64_t task, Workspace<T> w) {
    const std::int64_t batch = task / whole.key_heads, key_head = task % whole.key_heads;
    const Geometry g = limited(whole, gradient.mask, batch);
    const std::int64_t row = padded<T>(g.width);
    pack_transposed_blocks(gradient.k, batch, key_head, w.keys_transposed);
    pack_transposed_blocks(gradient.v, batch, key_head, w.values_transposed);
    pack_rows(gradient.k, batch, 0, g.keys, key_head, w.keys, row);
    const Destination<T> dk(gradient.dk, batch, key_head, 0, g.keys, gradient.beta_k, w.dkeys);
    const Destination<T> dv(gradient.dv, batch, key_head, 0, g.keys, gradient.beta_v, w.dvalues);
    std::int64_t known = 0;
    for (std::int64_t head = key_head * g.group(); head < (key_head + 1) * g.group(); ++head) {
        const HeadGradient<T> head_gradient{gradient, g, batch, head, w, dk, dv};
        for (std::int64_t query = 0; query < g.queries; query += kQueryBlock) {
            head_gradient.queries(query, std::min(kQueryBlock, g.queries - query), known);
        }
    }
    for (const Destination<T>* to : {&dk, &dv}) {
        to->clear(known, g.keys);
        to->finish(w.row_buffer);
    }
}

template <class T>
void compute(CpuStream& stream, const AttentionGradient& gradient, std::size_t bytes, std::byte* scratch) {
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    check_lengths(gradient.mask, g);
    const std::int64_t tasks = g.batch * g.key_heads;
    if (tasks == 0) return;
    const std::int64_t threads = std::min<std::int64_t>(stream.threads, tasks);
    parallel_for(stream, threads, g.batch * g.heads * g.queries * g.keys * g.width / 4, [&](std::int64_t thread) {
        const Workspace<T> workspace(gradient, g, scratch + static_cast<std::size_t>(thread) * (bytes + kScratchGap));
        const std::int64_t end = (thread + 1) * tasks / threads;
        for (std::int64_t task = thread * tasks / threads; task < end; ++task) {
            compute_group<T>(gradient, g, task, workspace);
        }
    });
}

}  // namespace

AttentionGradientPlan::AttentionGradientPlan(const Stream& stream, const AttentionGradient& gradient)
    : gradient_(gradient) {
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    if (on_cuda(stream)) {
        if (capability_of(stream) >= kSdpaCapability) library_ = plan_sdpa(gradient, compute_of(stream));
        scratch_ = std::max(delta_bytes(g, gradient.q.dtype), sdpa_scratch(library_));
        return;
    }
    thread_bytes_ = gradient.q.dtype == Dtype::f64 ? Workspace<double>::elements(gradient, g) * sizeof(double)
                                                   : Workspace<float>::elements(gradient, g) * sizeof(float);
    const auto threads = static_cast<std::size_t>(threads_of(stream));
    scratch_ = thread_bytes_ * threads + kScratchGap * (threads - 1);
}

void AttentionGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    if (gradient_.q.dtype == Dtype::f64) {
        compute<double>(stream, gradient_, thread_bytes_, scratch);
    } else {
        compute<float>(stream, gradient_, thread_bytes_, scratch);
    }
}

}  // namespace headroom::kernels
