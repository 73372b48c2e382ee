#include <cmath>
#include <limits>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/block.hpp>
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kQueryBlock = 32;

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

template <class T>
T dot(const T* a, const T* b, std::int64_t count) {
    T lanes[kLanes<T>] = {};
    std::int64_t i = 0;
    for (; i + kLanes<T> <= count; i += kLanes<T>) {
        for (std::int64_t l = 0; l < kLanes<T>; ++l) lanes[l] += a[i + l] * b[i + l];
    }
    T sum = 0;
    for (; i < count; ++i) sum += a[i] * b[i];
    for (std::int64_t l = 0; l < kLanes<T>; ++l) sum += lanes[l];
    return sum;
}

/// One row: scores become probabilities, and the gradient of the probabilities that of the scores.
template <class T>
void differentiate_row(T* scores, T* dscores, std::int64_t seen, std::int64_t width, T lse, T delta) {
    const std::int64_t end = std::clamp<std::int64_t>(seen, 0, width);
    std::fill(scores + end, scores + width, -std::numeric_limits<T>::infinity());
    if (end == 0) lse = 0;
    for (std::int64_t j = 0; j < width; j += kLanes<T>) {
        for (std::int64_t l = 0; l < kLanes<T>; ++l) {
            const T probability = math::exp(scores[j + l] - lse);
            scores[j + l] = probability;
            dscores[j + l] = probability * (dscores[j + l] - delta);
        }
    }
}

template <class T>
struct HeadGradient {
    const AttentionGradient& gradient;
    Geometry g;
    std::int64_t batch;
    std::int64_t head;
    Workspace<T> w;

    void queries(std::int64_t first, std::int64_t count) const {
        const std::int64_t row = padded<T>(g.width);
        pack_rows(gradient.q, batch, first, count, head, w.queries, row);
        pack_rows(gradient.dy, batch, first, count, head, w.dy, row);
        const T scale = static_cast<T>(gradient.scale);
        for (std::int64_t i = 0; i < count * row; ++i) w.queries[i] *= scale;
        Rows<T> rows;
        const View &lse = gradient.lse, &o = gradient.o;
        for (std::int64_t i = 0; i < count; ++i) {
            const T* output = borrow(row_of(o, batch, first + i, head), o.dtype, o.stride(3), g.width, w.row_buffer);
            rows.delta[i] = dot(output, w.dy + i * row, g.width);
            load(lse.at(batch * lse.stride(0) + head * lse.stride(1) + (first + i) * lse.stride(2)), lse.dtype, 1, 1,
                 rows.lse + i);
        }
        const std::int64_t seen = g.visible(first + count - 1);
        for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
            block(first, count, key, std::min(kKeyBlock, seen - key), rows);
        }
        if (gradient.dq.data == nullptr) return;
        if (seen == 0) std::fill_n(w.dqueries, count * row, T{0});
        for (std::int64_t i = 0; i < count * row; ++i) w.dqueries[i] *= scale;
        for (std::int64_t i = 0; i < count; ++i) {
            accumulate_row(w.dqueries + i * row, gradient.dq, batch, first + i, head, static_cast<T>(gradient.beta_q),
                           w.row_buffer);
        }
    }

    void block(std::int64_t first, std::int64_t count, std::int64_t key, std::int64_t keys, const Rows<T>& rows) const {
        const std::int64_t row = padded<T>(g.width);
        const std::int64_t width = padded<T>(keys);
        tile_product({count, width, g.width}, w.queries, row, 1, w.keys_transposed + key * g.width, kKeyBlock,
                     w.probabilities, kKeyBlock, false);
        tile_product({count, width, g.width}, w.dy, row, 1, w.values_transposed + key * g.width, kKeyBlock, w.dscores,
                     kKeyBlock, false);
        for (std::int64_t i = 0; i < count; ++i) {
            differentiate_row(w.probabilities + i * kKeyBlock, w.dscores + i * kKeyBlock, g.visible(first + i) - key,
                              width, rows.lse[i], rows.delta[i]);
        }
        tile_product({keys, row, count}, w.probabilities, 1, kKeyBlock, w.dy, row, w.dvalues + key * row, row, true);
        tile_product({keys, row, count}, w.dscores, 1, kKeyBlock, w.queries, row, w.dkeys + key * row, row, true);
        tile_product({count, row, keys}, w.dscores, kKeyBlock, 1, w.keys + key * row, row, w.dqueries, row, key != 0);
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
    std::fill_n(w.dkeys, g.keys * row, T{0});
    std::fill_n(w.dvalues, g.keys * row, T{0});
    for (std::int64_t head = key_head * g.group(); head < (key_head + 1) * g.group(); ++head) {
        const HeadGradient<T> head_gradient{gradient, g, batch, head, w};
        for (std::int64_t query = 0; query < g.queries; query += kQueryBlock) {
            head_gradient.queries(query, std::min(kQueryBlock, g.queries - query));
        }
    }
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
        const Workspace<T> workspace(g, scratch + static_cast<std::size_t>(thread) * bytes);
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
    return bytes * static_cast<std::size_t>(threads_of(stream));
}

void attention_gradient(CpuStream& stream, const AttentionGradient& gradient, std::byte* scratch) {
    if (gradient.q.dtype == Dtype::f64) {
        compute<double>(stream, gradient, scratch);
    } else {
        compute<float>(stream, gradient, scratch);
    }
}

}  // namespace headroom::kernels
