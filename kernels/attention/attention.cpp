#include <headroom/kernels/attention/attention.hpp>

#include <cmath>
#include <limits>

#include <headroom/kernels/attention/block.hpp>
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kQueryBlock = 24;  // whole register tiles of 6 and of 12 rows

/// Blocks of one thread.
template <class T>
struct Workspace {
    T *keys, *values, *queries, *scores, *sums;

    static std::size_t elements(const Geometry& g) {
        const std::int64_t row = padded<T>(g.width);
        const std::int64_t per_key = padded<T>(g.padded_keys() * g.width) + g.padded_keys() * row;
        return static_cast<std::size_t>(per_key + kQueryBlock * (2 * row + kKeyBlock));
    }
    Workspace(const Geometry& g, std::byte* memory) {
        const std::int64_t row = padded<T>(g.width);
        keys = reinterpret_cast<T*>(memory);
        values = keys + padded<T>(g.padded_keys() * g.width);
        queries = values + g.padded_keys() * row;
        scores = queries + kQueryBlock * row;
        sums = scores + kQueryBlock * kKeyBlock;
    }
};

/// What the online softmax knows of the queries at hand.
template <class T>
struct Running {
    T maximum[kQueryBlock];
    T sum[kQueryBlock];
};

template <class T>
T row_maximum(const T* scores, std::int64_t width) {
    T lanes[kLanes<T>];
    std::copy_n(scores, kLanes<T>, lanes);
    for (std::int64_t j = kLanes<T>; j < width; j += kLanes<T>) {
        for (std::int64_t l = 0; l < kLanes<T>; ++l) lanes[l] = lanes[l] < scores[j + l] ? scores[j + l] : lanes[l];
    }
    T maximum = lanes[0];
    for (std::int64_t l = 1; l < kLanes<T>; ++l) maximum = maximum < lanes[l] ? lanes[l] : maximum;
    return maximum;
}

/// scores = exp(scores - shift); returns their sum.
template <class T>
T exponentials(T* scores, std::int64_t width, T shift) {
    T lanes[kLanes<T>] = {};
    for (std::int64_t j = 0; j < width; j += kLanes<T>) {
        for (std::int64_t l = 0; l < kLanes<T>; ++l) {
            scores[j + l] = math::exp(scores[j + l] - shift);
            lanes[l] += scores[j + l];
        }
    }
    T sum = 0;
    for (std::int64_t l = 0; l < kLanes<T>; ++l) sum += lanes[l];
    return sum;
}

/// Turns one row of scores into unnormalised probabilities. Returns by what earlier sums must be multiplied.
template <class T>
T softmax_row(T* scores, std::int64_t seen, std::int64_t width, T& maximum, T& sum) {
    if (seen <= 0) {
        std::fill_n(scores, width, T{0});
        return 1;
    }
    std::fill(scores + std::min(seen, width), scores + width, -std::numeric_limits<T>::infinity());
    const T larger = std::max(maximum, row_maximum(scores, width));
    const T correction = math::exp(maximum - larger);
    sum = sum * correction + exponentials(scores, width, larger);
    maximum = larger;
    return correction;
}

template <class T>
struct HeadForward {
    const Attention& attention;
    Geometry g;
    std::int64_t batch;
    std::int64_t head;
    Workspace<T> w;

    void queries(std::int64_t first, std::int64_t count) const {
        const std::int64_t row = padded<T>(g.width);
        pack_rows(attention.q, batch, first, count, head, w.queries, row);
        const T scale = static_cast<T>(attention.scale);
        for (std::int64_t i = 0; i < count * row; ++i) w.queries[i] *= scale;

        Running<T> running;
        std::fill_n(running.maximum, count, -std::numeric_limits<T>::infinity());
        std::fill_n(running.sum, count, T{0});
        const std::int64_t seen = g.visible(first + count - 1);
        for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
            block(first, count, key, std::min(kKeyBlock, seen - key), running);
        }
        if (seen == 0) std::fill_n(w.sums, count * row, T{0});
        for (std::int64_t i = 0; i < count; ++i)
            finish(first + i, w.sums + i * row, running.maximum[i], running.sum[i]);
    }

    void block(std::int64_t first, std::int64_t count, std::int64_t key, std::int64_t keys, Running<T>& running) const {
        const std::int64_t row = padded<T>(g.width);
        const std::int64_t width = padded<T>(keys);
        tile_product({count, width, g.width}, w.queries, row, 1, w.keys + key * g.width, kKeyBlock, w.scores, kKeyBlock,
                     false);
        for (std::int64_t i = 0; i < count; ++i) {
            const T correction = softmax_row(w.scores + i * kKeyBlock, g.visible(first + i) - key, width,
                                             running.maximum[i], running.sum[i]);
            if (key == 0 || correction == 1) continue;
            T* sums = w.sums + i * row;
            for (std::int64_t d = 0; d < row; ++d) sums[d] *= correction;
        }
        tile_product({count, row, keys}, w.scores, kKeyBlock, 1, w.values + key * row, row, w.sums, row, key != 0);
    }

    void finish(std::int64_t query, T* sums, T maximum, T sum) const {
        const bool any = g.visible(query) > 0;
        const T factor = any ? 1 / sum : 0;
        for (std::int64_t d = 0; d < g.width; ++d) sums[d] *= factor;
        const View& o = attention.o;
        store(sums, g.width, row_of(o, batch, query, head), o.dtype, o.stride(3));
        const View& lse = attention.lse;
        if (lse.data == nullptr) return;
        const T value = any ? maximum + std::log(sum) : -std::numeric_limits<T>::infinity();
        store(&value, 1, lse.at(batch * lse.stride(0) + head * lse.stride(1) + query * lse.stride(2)), lse.dtype, 1);
    }
};

/// One (batch, key head): queries [first, last) of all its query heads.
template <class T>
void compute_group(const Attention& attention, const Geometry& g, std::int64_t task, std::int64_t first,
                   std::int64_t last, Workspace<T> w) {
    const std::int64_t batch = task / g.key_heads, key_head = task % g.key_heads;
    pack_transposed_blocks(attention.k, batch, key_head, w.keys);
    pack_rows(attention.v, batch, 0, g.keys, key_head, w.values, padded<T>(g.width));
    for (std::int64_t head = key_head * g.group(); head < (key_head + 1) * g.group(); ++head) {
        const HeadForward<T> forward{attention, g, batch, head, w};
        for (std::int64_t query = first; query < last; query += kQueryBlock) {
            forward.queries(query, std::min(kQueryBlock, last - query));
        }
    }
}

template <class T>
void compute(CpuStream& stream, const Attention& attention, std::byte* scratch) {
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    const std::int64_t groups = g.batch * g.key_heads;
    if (groups * g.queries == 0) return;
    // Few heads: each one's queries are shared out as well, in whole blocks, so that no bit changes.
    const std::int64_t blocks = (g.queries + kQueryBlock - 1) / kQueryBlock;
    const std::int64_t parts = groups >= stream.threads ? 1 : std::min<std::int64_t>(stream.threads, blocks);
    const std::int64_t tasks = groups * parts;
    const std::int64_t threads = std::min<std::int64_t>(stream.threads, tasks);
    const std::size_t bytes = Workspace<T>::elements(g) * sizeof(T);
    parallel_for(stream, threads, g.batch * g.heads * g.queries * g.keys * g.width / 8, [&](std::int64_t thread) {
        const Workspace<T> workspace(g, scratch + static_cast<std::size_t>(thread) * bytes);
        const std::int64_t end = (thread + 1) * tasks / threads;
        for (std::int64_t task = thread * tasks / threads; task < end; ++task) {
            const std::int64_t part = task % parts;
            const std::int64_t first = part * blocks / parts * kQueryBlock;
            const std::int64_t last = std::min(g.queries, (part + 1) * blocks / parts * kQueryBlock);
            compute_group<T>(attention, g, task / parts, first, last, workspace);
        }
    });
}

}  // namespace

std::size_t attention_scratch(Stream& stream, const Attention& attention) {
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    const std::size_t bytes = attention.q.dtype == Dtype::f64 ? Workspace<double>::elements(g) * sizeof(double)
                                                              : Workspace<float>::elements(g) * sizeof(float);
    return bytes * static_cast<std::size_t>(threads_of(stream));
}

void attention(CpuStream& stream, const Attention& attention, std::byte* scratch) {
    if (attention.q.dtype == Dtype::f64) {
        compute<double>(stream, attention, scratch);
    } else {
        compute<float>(stream, attention, scratch);
    }
}

}  // namespace headroom::kernels
