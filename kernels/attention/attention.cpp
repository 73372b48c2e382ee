#include <headroom/kernels/attention/attention.hpp>

#include <cmath>
#include <limits>

#include <headroom/kernels/attention/internal/block.hpp>
#include <headroom/kernels/attention/internal/masking.hpp>
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/matmul/internal/transpose.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

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
    alignas(kVectorBytes) T maximum[kQueryBlock];
    alignas(kVectorBytes) T sum[kQueryBlock];
    alignas(kVectorBytes) T correction[kQueryBlock];  // by what earlier sums must be multiplied
};

/// As many rows as a vector has lanes: so that what each row reduces to is found for all of them at once.
template <class T>
struct RowGroup {
    static constexpr std::int64_t kRows = kLanes<T>;

    T* scores;
    std::int64_t rows;
    std::int64_t columns;

    /// scores *= scale, but minus infinity where hidden: row i sees `seen + i * step` keys, at most `keys`. Gives the
    /// largest of each row.
    Vector<T> scale_and_mask(T scale, std::int64_t seen, std::int64_t step, std::int64_t keys) const {
        const Vector<T> hidden = Vector<T>{} - std::numeric_limits<T>::infinity();
        const Vector<T> lane = load_vector(kLaneNumbers<T>.values);
        Vector<T> largest[kRows];
        for (std::int64_t i = 0; i < kRows; ++i) {
            largest[i] = hidden;
            if (i >= rows) continue;
            T* row = scores + i * kKeyBlock;
            for (std::int64_t j = 0; j < columns; j += kRows) {
                const T limit = static_cast<T>(std::min(keys, seen + i * step) - j);
                const Vector<T> x = lane < limit ? scale * load_vector(row + j) : hidden;
                store_vector<T>(x, row + j);
                largest[i] = larger<T>(largest[i], x);
            }
        }
        return across(largest, [](Vector<T> x, Vector<T> y) { return larger<T>(x, y); });
    }

    /// scores = exp(scores - shift), then zero up to `width`; gives the sum of each row.
    Vector<T> exponentials(const T* shift, std::int64_t width) const {
        Vector<T> sums[kRows];
        for (std::int64_t i = 0; i < kRows; ++i) {
            sums[i] = Vector<T>{};
            if (i >= rows) continue;
            T* row = scores + i * kKeyBlock;
            for (std::int64_t j = 0; j < columns; j += kRows) {
                for (std::int64_t l = 0; l < kRows; ++l) row[j + l] = math::exp(row[j + l] - shift[i]);
                sums[i] += load_vector(row + j);
            }
            for (std::int64_t j = columns; j < width; j += kRows) store_vector<T>(Vector<T>{}, row + j);
        }
        return across(sums, [](Vector<T> x, Vector<T> y) { return x + y; });
    }

  private:
    template <class Combine>
    static Vector<T> across(Vector<T>* rows, Combine&& combine) {
        transpose_registers<T>(rows);
        Vector<T> result = rows[0];
        for (std::int64_t i = 1; i < kRows; ++i) result = combine(result, rows[i]);
        return result;
    }
};

/// Turns the scores of a block into unnormalised probabilities, zero where they are hidden.
template <class T>
void softmax_block(const Block& block, T scale, T* scores, Running<T>& running) {
    constexpr std::int64_t lanes = kLanes<T>;
    for (std::int64_t i = 0; i < block.queries; i += lanes) {
        const RowGroup<T> group{scores + i * kKeyBlock, std::min(lanes, block.queries - i), block.columns<T>(i)};
        alignas(kVectorBytes) T found[lanes], shift[lanes];
        store_vector<T>(group.scale_and_mask(scale, block.unclamped_seen(i), block.g.causal ? 1 : 0, block.keys),
                        found);
        T* const maximum = running.maximum + i;
        T* const correction = running.correction + i;
        for (std::int64_t l = 0; l < lanes; ++l) {
            const T both = maximum[l] < found[l] ? found[l] : maximum[l];
            shift[l] = both == -std::numeric_limits<T>::infinity() ? T{0} : both;  // saw no key so far
            correction[l] = math::exp(maximum[l] - shift[l]);
            maximum[l] = both;
        }
        store_vector<T>(group.exponentials(shift, padded<T>(block.keys)), found);
        for (std::int64_t l = 0; l < lanes; ++l) running.sum[i + l] = running.sum[i + l] * correction[l] + found[l];
    }
}

template <class T>
struct HeadForward {
    const Attention& attention;
    Geometry g;
    std::int64_t batch;
    std::int64_t head;
    Workspace<T> w;
    Masking<T> masking{attention, batch, head};

    void queries(std::int64_t first, std::int64_t count) const {
        const std::int64_t row = padded<T>(g.width);
        pack_rows(attention.q, batch, first, count, head, w.queries, row);
        Running<T> running;
        std::fill_n(running.maximum, kQueryBlock, -std::numeric_limits<T>::infinity());
        std::fill_n(running.sum, kQueryBlock, T{0});
        const std::int64_t seen = g.visible(first + count - 1);
        for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
            block({g, first, count, key, std::min(kKeyBlock, seen - key)}, running);
        }
        if (seen == 0) std::fill_n(w.sums, count * row, T{0});
        finish(first, count, running);
    }

    void block(const Block& block, Running<T>& running) const {
        const std::int64_t row = padded<T>(g.width);
        const auto scale = static_cast<T>(attention.scale);
        block.scores(w.queries, row, w.keys + block.first_key * g.width, w.scores);
        if (masking.adds()) masking.add(block, scale, w.scores);
        softmax_block(block, masking.adds() ? T{1} : scale, w.scores, running);
        if (masking.drops()) masking.drop(block, w.scores);
        for (std::int64_t i = 0; i < block.queries && block.first_key != 0; ++i) {
            const T correction = running.correction[i];
            if (correction == 1) continue;
            T* sums = w.sums + i * row;
            for (std::int64_t d = 0; d < row; ++d) sums[d] *= correction;
        }
        block.per_query(w.scores, w.values + block.first_key * row, row, w.sums, row, block.first_key != 0);
    }

    void finish(std::int64_t first, std::int64_t count, const Running<T>& running) const {
        alignas(kVectorBytes) T factor[kQueryBlock], lse[kQueryBlock];
        for (std::int64_t i = 0; i < kQueryBlock; ++i) {
            factor[i] = running.sum[i] == 0 ? T{0} : 1 / running.sum[i];
            lse[i] = running.maximum[i] + math::log(running.sum[i]);  // minus infinity for a query that sees nothing
        }
        const View& o = attention.o;
        for (std::int64_t i = 0; i < count; ++i) {
            T* sums = w.sums + i * padded<T>(g.width);
            std::byte* target = row_of(o, batch, first + i, head);
            T* out = borrow_target(target, o.dtype, o.stride(3), g.width, sums);
            for (std::int64_t d = 0; d < g.width; ++d) out[d] = sums[d] * factor[i];
            settle(out, g.width, target, o.dtype, o.stride(3));
        }
        const View& to = attention.lse;
        if (to.data == nullptr) return;
        std::byte* target = to.at(batch * to.stride(0) + head * to.stride(1) + first * to.stride(2));
        store(lse, count, target, to.dtype, to.stride(2));
    }
};

/// One (batch, key head): queries [first, last) of all its query heads.
template <class T>
void compute_group(const Attention& attention, const Geometry& whole, std::int64_t task, std::int64_t first,
                   std::int64_t last, Workspace<T> w) {
    const std::int64_t batch = task / whole.key_heads, key_head = task % whole.key_heads;
    const Geometry g = limited(whole, attention.mask, batch);
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
void compute(CpuStream& stream, const Attention& attention, std::size_t bytes, std::byte* scratch) {
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    check_lengths(attention.mask, g);
    const std::int64_t groups = g.batch * g.key_heads;
    if (groups * g.queries == 0) return;
    // Few heads: each one's queries are shared out as well, in whole blocks, so that no bit changes.
    const std::int64_t blocks = (g.queries + kQueryBlock - 1) / kQueryBlock;
    const std::int64_t parts = groups >= stream.threads ? 1 : std::min<std::int64_t>(stream.threads, blocks);
    const std::int64_t tasks = groups * parts;
    const std::int64_t threads = std::min<std::int64_t>(stream.threads, tasks);
    parallel_for(stream, threads, g.batch * g.heads * g.queries * g.keys * g.width / 8, [&](std::int64_t thread) {
        const Workspace<T> workspace(g, scratch + static_cast<std::size_t>(thread) * (bytes + kScratchGap));
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

AttentionPlan::AttentionPlan(const Stream& stream, const Attention& attention) : attention_(attention) {
    if (on_cuda(stream)) {
        if (capability_of(stream) >= kSdpaCapability) library_ = plan_sdpa(attention);
        scratch_ = sdpa_scratch(library_);
        return;
    }
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    thread_bytes_ = attention.q.dtype == Dtype::f64 ? Workspace<double>::elements(g) * sizeof(double)
                                                    : Workspace<float>::elements(g) * sizeof(float);
    const auto threads = static_cast<std::size_t>(threads_of(stream));
    scratch_ = thread_bytes_ * threads + kScratchGap * (threads - 1);
}

void AttentionPlan::run(CpuStream& stream, std::byte* scratch) const {
    if (attention_.q.dtype == Dtype::f64) {
        compute<double>(stream, attention_, thread_bytes_, scratch);
    } else {
        compute<float>(stream, attention_, thread_bytes_, scratch);
    }
}

}  // namespace headroom::kernels
