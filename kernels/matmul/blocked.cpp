#include <headroom/kernels/matmul/internal/blocked.hpp>

#include <algorithm>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/internal/epilogue.hpp>
#include <headroom/kernels/matmul/internal/pack.hpp>
#include <headroom/kernels/matmul/internal/tile.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kRows = 240;        // of c per block: their sums and a panel of b share the second-level cache
constexpr std::int64_t kDepth = 384;       // of k per block
constexpr std::int64_t kTileRows = 12;     // of c: what registers take at once is a divisor
constexpr std::int64_t kPackedRows = 48;   // of a, converted at a time
constexpr std::size_t kStackBytes = 8192;  // below this, scratch is on the stack

/// Where one thread keeps its blocks.
template <class T>
struct Workspace {
    T* panel;
    T* sums;
    T* rows;

    static std::size_t bytes(const Problem& p) {
        const std::int64_t width = std::min(kPanel<T>, padded<T>(p.n));
        const std::int64_t depth = std::min(kDepth, p.k);
        const std::int64_t elements =
            (depth + std::min(kRows, p.m)) * width + (p.operand != dtype_of<T> ? kPackedRows * depth : 0);
        return aligned(static_cast<std::size_t>(elements) * sizeof(T));
    }
    Workspace(const Problem& p, std::byte* memory) {
        const std::int64_t width = std::min(kPanel<T>, padded<T>(p.n));
        panel = reinterpret_cast<T*>(memory);
        sums = panel + std::min(kDepth, p.k) * width;
        rows = sums + std::min(kRows, p.m) * width;
    }
};

/// One block of c: `rows` rows from `first_row` on, a panel of columns from `first_column` on.
template <class T>
struct Block {
    const Problem& p;
    BatchOffset offset;
    std::int64_t first_row;
    std::int64_t rows;
    std::int64_t first_column;

    void compute(Workspace<T> w) const {
        static_assert(kPanel<T> <= Patch::kMaxColumns);
        const std::int64_t columns = std::min(kPanel<T>, p.n - first_column);
        const std::int64_t width = padded<T>(columns);
        const bool direct = columns == width && writes_sums();
        const Target to =
            direct ? Target{reinterpret_cast<T*>(address()), p.c_row, p.beta != 0} : Target{w.sums, width, false};
        if (p.k == 0) std::fill_n(w.sums, rows * width, T{0});
        for (std::int64_t depth = 0; depth < p.k; depth += kDepth) {
            const std::int64_t run = std::min(kDepth, p.k - depth);
            const std::byte* b = p.b_at(offset.b + depth * p.b_depth + first_column * p.b_column);
            pack(b, p.operand, p.b_depth, p.b_column, run, columns, w.panel, width, width);
            multiply(w, depth, run, width, {to.data, to.row, to.accumulate || depth != 0});
        }
        if (!direct) finish(p, {rows, columns, first_column}, w.sums, width, address());
    }

  private:
    /// Where sums are kept: in c itself, if nothing is to be done to them.
    struct Target {
        T* data;
        std::int64_t row;
        bool accumulate;
    };

    bool writes_sums() const {
        return p.result == dtype_of<T> && p.c_column == 1 && p.k > 0 && !p.has_bias && (p.beta == 0 || p.beta == 1) &&
               p.activation == Activation::none;
    }
    std::byte* address() const { return p.c_at(offset.c + first_row * p.c_row + first_column * p.c_column); }

    void multiply(Workspace<T> w, std::int64_t depth, std::int64_t run, std::int64_t width, Target to) const {
        const std::byte* a = p.a_at(offset.a + first_row * p.a_row + depth * p.a_depth);
        if (p.operand == dtype_of<T>) {
            tile_product({rows, width, run}, reinterpret_cast<const T*>(a), p.a_row, p.a_depth, w.panel, width, to.data,
                         to.row, to.accumulate);
            return;
        }
        // Converted in the direction in which a is contiguous.
        const bool transposed = p.a_row == 1 && p.a_depth != 1;
        for (std::int64_t i = 0; i < rows; i += kPackedRows) {
            const std::int64_t count = std::min(kPackedRows, rows - i);
            const std::byte* from = p.a_at(offset.a + (first_row + i) * p.a_row + depth * p.a_depth);
            if (transposed) {
                pack(from, p.operand, p.a_depth, p.a_row, run, count, w.rows, count, count);
            } else {
                pack(from, p.operand, p.a_row, p.a_depth, count, run, w.rows, run, run);
            }
            tile_product({count, width, run}, w.rows, transposed ? 1 : run, transposed ? count : 1, w.panel, width,
                         to.data + i * to.row, to.row, to.accumulate);
        }
    }
};

/// At most kRows, in whole register tiles, so that every thread gets as much. No bit depends on it.
std::int64_t rows_per_block(const Problem& p, int threads) {
    const std::int64_t share = p.batches() >= threads ? 1 : threads;
    const std::int64_t chunks = round_up(quotient_up(p.m, kRows), share);
    return round_up(quotient_up(p.m, chunks), kTileRows);
}

template <class T>
void compute(CpuStream& stream, const Problem& p, std::byte* scratch) {
    const std::size_t bytes = Workspace<T>::bytes(p);
    alignas(64) std::byte stack[kStackBytes];
    const bool on_stack = bytes <= kStackBytes;
    const std::int64_t panels = quotient_up(p.n, kPanel<T>);
    const std::int64_t rows = rows_per_block(p, stream.threads);
    const std::int64_t chunks = quotient_up(p.m, rows);
    const std::int64_t blocks = p.batches() * panels * chunks;
    const std::int64_t threads = on_stack ? 1 : std::min<std::int64_t>(stream.threads, blocks);
    // Neighbouring blocks are columns of the same rows, so that each thread writes to rows of its own.
    parallel_for(stream, threads, p.batches() * p.m * p.n * p.k / 8, [&](std::int64_t thread) {
        const Workspace<T> workspace(
            p, on_stack ? stack : scratch + static_cast<std::size_t>(thread) * (bytes + kScratchGap));
        const std::int64_t end = (thread + 1) * blocks / threads;
        for (std::int64_t block = thread * blocks / threads; block < end; ++block) {
            const BatchOffset offset = p.offset(block / panels / chunks);
            const std::int64_t row = block / panels % chunks * rows;
            Block<T>{p, offset, row, std::min(rows, p.m - row), block % panels * kPanel<T>}.compute(workspace);
        }
    });
}

}  // namespace

std::size_t blocked_scratch(int threads, const Problem& problem) {
    const std::size_t bytes =
        problem.operand == Dtype::f64 ? Workspace<double>::bytes(problem) : Workspace<float>::bytes(problem);
    if (bytes <= kStackBytes) return 0;
    return bytes * static_cast<std::size_t>(threads) + kScratchGap * static_cast<std::size_t>(threads - 1);
}

void blocked_matmul(CpuStream& stream, const Problem& problem, std::byte* scratch) {
    if (problem.operand == Dtype::f64) {
        compute<double>(stream, problem, scratch);
    } else {
        compute<float>(stream, problem, scratch);
    }
}

}  // namespace headroom::kernels
