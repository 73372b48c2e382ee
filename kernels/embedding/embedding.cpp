#include <headroom/kernels/embedding/embedding.hpp>

#include <cstring>

#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kTasks = 64;

/// Positions sorted by their index: those of v are order[starts[v]] up to order[starts[v + 1]], ascending.
struct Sorted {
    const std::int32_t* starts;
    const std::int32_t* order;
};

Sorted sort_positions(const Indices& ids, std::int64_t rows, std::byte* scratch) {
    auto* starts = reinterpret_cast<std::int32_t*>(scratch);
    auto* order = starts + rows + 2;
    std::memset(starts, 0, static_cast<std::size_t>(rows + 2) * sizeof(*starts));
    for (std::int64_t i = 0; i < ids.count(); ++i) ++starts[ids[i] + 2];
    for (std::int64_t v = 2; v < rows + 2; ++v) starts[v] += starts[v - 1];
    for (std::int64_t i = 0; i < ids.count(); ++i) order[starts[ids[i] + 1]++] = static_cast<std::int32_t>(i);
    return {starts, order};
}

/// Where task `task` of kTasks begins, so that all have about as many rows of the table and positions to do. Which task
/// does a row does not change its bits.
std::int64_t first_row(const Sorted& sorted, std::int64_t rows, std::int64_t task) {
    const std::int64_t goal = (rows + sorted.starts[rows]) * task / kTasks;
    std::int64_t low = 0, high = rows;
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (middle + sorted.starts[middle] < goal) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/// One row of the gradient: the sum of the rows of dy at its positions, of which the padding has none.
template <class T>
void row_gradient(const Sorted& sorted, std::int64_t v, std::int64_t padding, const Rows& gradient, const Rows& out,
                  float beta) {
    const std::int32_t first = sorted.starts[v], last = v == padding ? first : sorted.starts[v + 1];
    if (first == last && beta == 1) return;
    T buffer[kChunk], sums[kChunk];
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        T* sum = out.target(v, begin, count, sums, beta);
        if (first == last) std::fill_n(sum, count, T{0});
        for (std::int32_t p = first; p < last; ++p) {
            const T* dy = gradient.read(sorted.order[p], begin, count, buffer);
            if (p == first) {
                std::copy_n(dy, count, sum);
                continue;
            }
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) sum[i] += dy[i];
        }
        out.write(sum, v, begin, count, beta);
    });
}

}  // namespace

void embedding(CpuStream& stream, const View& table, const View& ids, const View& y) {
    const Rows in(table), out(y);
    const Indices indices(ids);
    indices.check("embedding: index", in.count());
    if (y.numel() == 0) return;
    dispatch_compute(table.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, indices.count(), y.numel(), [&](std::int64_t i) {
            T buffer[kChunk];
            for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                T* target = out.target(i, begin, count, buffer);
                const T* source = in.read(indices[i], begin, count, target);
                if (source != target) std::copy_n(source, count, target);
                out.write(target, i, begin, count);
            });
        });
    });
}

EmbeddingGradientPlan::EmbeddingGradientPlan(const Stream& stream, const View& ids, const View& dy, const View& dtable,
                                             float beta, std::int64_t padding)
    : ids_(ids),
      dy_(dy),
      dtable_(dtable),
      beta_(beta),
      padding_(padding),
      plan_(0, ids, dtable),
      scratch_(on_cuda(stream) ? plan_.bytes()
                               : static_cast<std::size_t>(dtable.shape[0] + 2 + ids.numel()) * sizeof(std::int32_t)) {
    check_sortable("embedding", ids.numel(), dtable.shape[0]);
}

void EmbeddingGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    const Rows gradient(dy_), out(dtable_);
    const Indices indices(ids_);
    indices.check("embedding: index", out.count());
    if (dtable_.numel() == 0) return;
    const Sorted sorted = sort_positions(indices, out.count(), scratch);
    dispatch_compute(dtable_.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, kTasks, dy_.numel() + dtable_.numel(), [&](std::int64_t task) {
            const std::int64_t end = first_row(sorted, out.count(), task + 1);
            for (std::int64_t v = first_row(sorted, out.count(), task); v < end; ++v) {
                row_gradient<T>(sorted, v, padding_, gradient, out, beta_);
            }
        });
    });
}

}  // namespace headroom::kernels
