#include <cmath>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/block.hpp>
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

/// Blocks of one thread: of one (batch, key head) the keys both ways, the values transposed, and the gradients of both.
template <class T>
struct Workspace {
    T *keys_transposed, *values_transposed, *keys, *dkeys, *dvalues;
    T *queries, *dy, *dqueries, *probabilities, *dscores, *row_buffer;

    template <class Place>
    static void lay_out(const Geometry& g, Place&& place) {
        const std::int64_t row = padded<T>(g.width), keys = g.padded_keys();
        place(&Workspace::keys_transposed, padded<T>(keys * g.width));
        place(&Workspace::values_transposed, padded<T>(keys * g.width));
        place(&Workspace::keys, keys * row);
        place(&Workspace::dkeys, keys * row);
        place(&Workspace::dvalues, keys * row);
        place(&Workspace::queries, kQueryBlock * row);
        place(&Workspace::dy, kQueryBlock * row);
        place(&Workspace::dqueries, kQueryBlock * row);
        place(&Workspace::probabilities, kQueryBlock * kKeyBlock);
        place(&Workspace::dscores, kQueryBlock * kKeyBlock);
        place(&Workspace::row_buffer, row);
    }
    static std::size_t elements(const Geometry& g) {
        std::int64_t total = 0;
        lay_out(g, [&](auto, std::int64_t count) { total += count; });
        return static_cast<std::size_t>(total);
    }
    Workspace(const Geometry& g, std::byte* memory) {
        T* next = reinterpret_cast<T*>(memory);
        lay_out(g, [&](auto member, std::int64_t count) {
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

/// One row of `columns` scores, of which `seen` are visible: they become probabilities, and the gradient of the
/// probabilities that of the scores before scaling; zero where hidden, and on to `width`.
template <class T>
void differentiate_row(T* scores, T* dscores, std::int64_t seen, std::int64_t columns, std::int64_t width, T scale,
                       T lse, T delta) {
    for (std::int64_t j = 0; j < columns; j += kLanes<T>) {
        const T limit = static_cast<T>(seen - j);
        for (std::int64_t l = 0; l < kLanes<T>; ++l) {
            const bool visible = kLaneNumbers<T>.values[l] < limit;
            const T probability = math::exp(scale * scores[j + l] - lse);
            const T dscore = scale * probability * (dscores[j + l] - delta);
            scores[j + l] = visible ? probability : T{0};
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

    /// `known`: keys whose gradients hold sums already.
    void queries(std::int64_t first, std::int64_t count, std::int64_t& known) const {
        const std::int64_t row = padded<T>(g.width);
        pack_rows(gradient.q, batch, first, count, head, w.queries, row);
        pack_rows(gradient.dy, batch, first, count, head, w.dy, row);
        pack_rows(gradient.o, batch, first, count, head, w.dqueries, row);
        Rows<T> rows;
        const View& lse = gradient.lse;
        for (std::int64_t i = 0; i < count; ++i) {
            rows.delta[i] = dot(w.dqueries + i * row, w.dy + i * row, row);
            rows.lse[i] = load_one<T>(
                lse.at(batch * lse.stride(0) + head * lse.stride(1) + (first + i) * lse.stride(2)), lse.dtype);
        }
        const std::int64_t seen = g.visible(first + count - 1);
        for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
            block({g, first, count, key, std::min(kKeyBlock, seen - key)}, rows, known);
        }
        if (gradient.dq.data == nullptr) return;
        if (seen == 0) std::fill_n(w.dqueries, count * row, T{0});
        for (std::int64_t i = 0; i < count; ++i) {
            accumulate_row(w.dqueries + i * row, gradient.dq, batch, first + i, head, static_cast<T>(gradient.beta_q),
                           w.row_buffer);
        }
    }

    void block(const Block& block, const Rows<T>& rows, std::int64_t& known) const {
        const std::int64_t row = padded<T>(g.width), key = block.first_key;
        block.scores(w.queries, row, w.keys_transposed + key * g.width, w.probabilities);
        block.scores(w.dy, row, w.values_transposed + key * g.width, w.dscores);
        for (std::int64_t i = 0; i < block.queries; ++i) {
            differentiate_row(w.probabilities + i * kKeyBlock, w.dscores + i * kKeyBlock, block.seen(i),
                              block.columns<T>(i), padded<T>(block.keys), static_cast<T>(gradient.scale), rows.lse[i],
                              rows.delta[i]);
        }
        const std::int64_t end = key + block.keys;
        if (known > key && known < end) {  // part of a block was seen before: only then is there something to clear
            std::fill(w.dkeys + known * row, w.dkeys + end * row, T{0});
            std::fill(w.dvalues + known * row, w.dvalues + end * row, T{0});
        }
        block.per_key(w.probabilities, w.dy, row, w.dvalues + key * row, known > key);
        block.per_key(w.dscores, w.queries, row, w.dkeys + key * row, known > key);
        block.per_query(w.dscores, w.keys + key * row, row, w.dqueries, key != 0);
        known = std::max(known, end);
    }
};

/// One (batch, key head) with all its query heads, in their order.
template <class T>
void compute_group(const AttentionGradient& gradient, const Geometry& g, std::int64_t task, Workspace<T> w) {
    const std::int64_t batch = task / g.key_heads, key_head = task % g.key_heads;
    const std::int64_t row = padded<T>(g.width);
    pack_transposed_blocks(gradient.k, batch, key_head, w.keys_transposed);
    pack_transposed_blocks(gradient.v, batch, key_head, w.values_transposed);
    pack_rows(gradient.k, batch, 0, g.keys, key_head, w.keys, row);
    std::int64_t known = 0;
    for (std::int64_t head = key_head * g.group(); head < (key_head + 1) * g.group(); ++head) {
        const HeadGradient<T> head_gradient{gradient, g, batch, head, w};
        for (std::int64_t query = 0; query < g.queries; query += kQueryBlock) {
            head_gradient.queries(query, std::min(kQueryBlock, g.queries - query), known);
        }
    }
    std::fill(w.dkeys + known * row, w.dkeys + g.keys * row, T{0});
    std::fill(w.dvalues + known * row, w.dvalues + g.keys * row, T{0});
    for (std::int64_t key = 0; key < g.keys; ++key) {
        if (gradient.dk.data != nullptr) {
            accumulate_row(w.dkeys + key * row, gradient.dk, batch, key, key_head, static_cast<T>(gradient.beta_k),
                           w.row_buffer);
        }
        if (gradient.dv.data != nullptr) {
            accumulate_row(w.dvalues + key * row, gradient.dv, batch, key, key_head, static_cast<T>(gradient.beta_v),
                           w.row_buffer);
        }
    }
}

template <class T>
void compute(CpuStream& stream, const AttentionGradient& gradient, std::byte* scratch) {
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    const std::int64_t tasks = g.batch * g.key_heads;
    if (tasks == 0) return;
    const std::int64_t threads = std::min<std::int64_t>(stream.threads, tasks);
    const std::size_t bytes = Workspace<T>::elements(g) * sizeof(T);
    parallel_for(stream, threads, g.batch * g.heads * g.queries * g.keys * g.width / 4, [&](std::int64_t thread) {
        const Workspace<T> workspace(g, scratch + static_cast<std::size_t>(thread) * (bytes + kScratchGap));
        const std::int64_t end = (thread + 1) * tasks / threads;
        for (std::int64_t task = thread * tasks / threads; task < end; ++task) {
            compute_group<T>(gradient, g, task, workspace);
        }
    });
}

}  // namespace

std::size_t attention_gradient_scratch(Stream& stream, const AttentionGradient& gradient) {
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    const std::size_t bytes = gradient.q.dtype == Dtype::f64 ? Workspace<double>::elements(g) * sizeof(double)
                                                             : Workspace<float>::elements(g) * sizeof(float);
    const auto threads = static_cast<std::size_t>(threads_of(stream));
    return bytes * threads + kScratchGap * (threads - 1);
}

void attention_gradient(CpuStream& stream, const AttentionGradient& gradient, std::byte* scratch) {
    if (gradient.q.dtype == Dtype::f64) {
        compute<double>(stream, gradient, scratch);
    } else {
        compute<float>(stream, gradient, scratch);
    }
}

}  // namespace headroom::kernels
