#include <headroom/kernels/matmul/internal/panels.hpp>

#include <algorithm>

#include <headroom/kernels/matmul/internal/epilogue.hpp>
#include <headroom/kernels/matmul/internal/pack.hpp>
#include <headroom/kernels/matmul/internal/transpose.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kLeastWork = 1 << 16;        // multiply-adds below which packing costs more than it gains
constexpr int kVectors = 2;                         // of a row of b's panel
constexpr int kRows = kVectorBytes == 64 ? 12 : 6;  // of a's panel: its sums leave registers for the operands
template <class T>
constexpr std::int64_t kColumns = kVectors* kLanes<T>;
constexpr std::int64_t kDepth = 192;                      // of k: a panel of a and one of b share the first cache
constexpr std::int64_t kBlockRows = 516 / kRows * kRows;  // a block of a stays in the second cache,
constexpr std::int64_t kGroup = 8;                        // and beside it so many panels of b
constexpr std::int64_t kFewColumns = 512;                 // of c: packing rows of a costs more than it saves
constexpr std::int64_t kLeastRows = 8 * kRows;            // of a thread; with fewer, columns are shared out

/// a b for one panel of each, added to c or in its place. Rows of a that are not packed are contiguous, `a_row` apart.
template <class T, int Vectors, bool Packed>
void multiply(const T* a, std::int64_t a_row, const T* b, std::int64_t depth, T* c, std::int64_t c_row,
              bool accumulate) {
    Vector<T> sum[kRows][Vectors];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
        __builtin_prefetch(c + i * c_row);
#pragma GCC unroll 2
        for (int j = 0; j < Vectors; ++j) sum[i][j] = Vector<T>{};
    }
#pragma GCC unroll 4
    for (std::int64_t p = 0; p < depth; ++p) {
        Vector<T> row[Vectors];
#pragma GCC unroll 2
        for (int j = 0; j < Vectors; ++j) row[j] = load_vector(b + j * kLanes<T>);
#pragma GCC unroll 12
        for (int i = 0; i < kRows; ++i) {
            const T element = a[Packed ? i : i * a_row];
#pragma GCC unroll 2
            for (int j = 0; j < Vectors; ++j) sum[i][j] += element * row[j];
        }
        a += Packed ? kRows : 1;
        b += Vectors * kLanes<T>;
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < Vectors; ++j) {
            T* const to = c + i * c_row + j * kLanes<T>;
            store_vector<T>(accumulate ? load_vector(to) + sum[i][j] : sum[i][j], to);
        }
    }
}

/// Panels of kRows rows, behind each other: [panel][p][row]. Rows that are missing in the last one are zeros.
template <class T>
void pack_rows(const T* a, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t depth, T* out) {
    constexpr std::int64_t lanes = kLanes<T>;
    for (std::int64_t i = 0; i < rows; i += kRows, out += kRows * depth) {
        const T* const from = a + i * row;
        const std::int64_t count = std::min<std::int64_t>(kRows, rows - i);
        std::int64_t p = 0;
        if constexpr (lanes >= kRows) {
            // A block's rows beyond the panel's are those of the next panel; stores overlap, the later ones are right.
            if (column == 1 && rows - i >= lanes) {
                for (; p + 2 * lanes <= depth; p += lanes) transpose_block(from + p, row, out + p * kRows, kRows);
            }
        }
        for (; p < depth; ++p) {
            for (std::int64_t r = 0; r < kRows; ++r) out[p * kRows + r] = r < count ? from[r * row + p * column] : T{0};
        }
    }
}

/// The same from rows that are contiguous along m, a few p at a time: what is read and written meanwhile stays in the
/// first cache.
template <class T>
void pack_columns(const T* a, std::int64_t column, std::int64_t rows, std::int64_t depth, T* out) {
    constexpr std::int64_t lanes = kLanes<T>, width = round_up(std::int64_t{kRows}, lanes), at_once = 16;
    for (std::int64_t first = 0; first < depth; first += at_once) {
        const std::int64_t last = std::min(first + at_once, depth);
        for (std::int64_t i = 0; i < rows; i += kRows) {
            const T* from = a + first * column + i;
            T* to = out + i * depth + first * kRows;
            std::int64_t p = first;
            // What vectors store behind a row is the next one's, which comes later; the panel's last row has none.
            const std::int64_t by_vectors = i + width <= rows ? std::min(last, depth - 1) : first;
            for (; p < by_vectors; ++p, from += column, to += kRows) {
#pragma GCC unroll 2
                for (std::int64_t j = 0; j < width; j += lanes) store_vector<T>(load_vector(from + j), to + j);
            }
            for (; p < last; ++p, from += column, to += kRows) {
                for (std::int64_t r = 0; r < kRows; ++r) to[r] = i + r < rows ? from[r] : T{0};
            }
        }
    }
}

/// How rows of c, or where they are few its columns, are shared out among threads.
template <class T>
struct Division {
    Division(const Problem& p, int threads) : by_rows(p.m >= kLeastRows * threads) {
        unit = by_rows ? kRows : kColumns<T>;
        units = quotient_up(by_rows ? p.m : p.n, unit);
        parts = std::min<std::int64_t>(threads, units);
        const std::int64_t share = quotient_up(units, parts) * unit;
        rows = by_rows ? share : round_up(p.m, std::int64_t{kRows});
        columns = by_rows ? round_up(p.n, kColumns<T>) : share;
    }
    bool by_rows;
    std::int64_t unit, units, parts;
    std::int64_t rows, columns;  ///< of the largest share, in whole panels
};

/// Where one thread packs a block of a and a group of b's panels.
template <class T>
struct Workspace {
    T *a, *b;

    static std::int64_t a_size(const Problem& p, const Division<T>& division) {
        return std::min(kBlockRows, division.rows) * std::min(kDepth, p.k);
    }
    static std::size_t bytes(const Problem& p, const Division<T>& division) {
        const std::int64_t columns = std::min(kGroup * kColumns<T>, division.columns);
        return aligned(static_cast<std::size_t>(a_size(p, division) + columns * std::min(kDepth, p.k)) * sizeof(T));
    }
    Workspace(const Problem& p, const Division<T>& division, std::byte* memory)
        : a(reinterpret_cast<T*>(memory)), b(a + a_size(p, division)) {}
};

/// Rows and columns of c for one thread.
template <class T>
class Share {
  public:
    Share(const Problem& p, Workspace<T> workspace) : p_(p), w_(workspace) {}

    void compute(std::int64_t first_row, std::int64_t last_row, std::int64_t first_column, std::int64_t last_column) {
        rows_in_place_ = p_.a_depth == 1 && last_column - first_column <= kFewColumns;
        for (std::int64_t row = first_row; p_.beta != 0 && p_.beta != 1 && row < last_row; ++row) {
            T* const c = c_at(row, 0);
            for (std::int64_t j = first_column; j < last_column; ++j) c[j] *= static_cast<T>(p_.beta);
        }
        const std::int64_t blocks = quotient_up(last_row - first_row, kBlockRows);
        const std::int64_t step = round_up(quotient_up(last_row - first_row, blocks), std::int64_t{kRows});
        for (row_ = first_row; row_ < last_row; row_ += step) {
            rows_ = std::min(step, last_row - row_);
            for (begin_ = 0; begin_ < p_.k; begin_ += kDepth) {
                depth_ = std::min(kDepth, p_.k - begin_);
                pack_a();
                for (std::int64_t column = first_column; column < last_column; column += kGroup * kColumns<T>)
                    multiply_group(column, std::min(column + kGroup * kColumns<T>, last_column));
            }
        }
    }

  private:
    T* c_at(std::int64_t row, std::int64_t column) const {
        return reinterpret_cast<T*>(p_.c_at(row * p_.c_row + column));
    }

    const T* a_at(std::int64_t row) const {
        return reinterpret_cast<const T*>(p_.a_at(row * p_.a_row + begin_ * p_.a_depth));
    }

    void pack_a() const {
        if (p_.a_row == 1 && p_.a_depth != 1) return pack_columns(a_at(row_), p_.a_depth, rows_, depth_, w_.a);
        const std::int64_t in_place = rows_in_place_ ? rows_ / kRows * kRows : 0;
        pack_rows(a_at(row_ + in_place), p_.a_row, p_.a_depth, rows_ - in_place, depth_, w_.a + in_place * depth_);
    }

    /// [panel][p][column]; columns that are missing in the last one are zeros.
    void pack_b(std::int64_t first, std::int64_t last) const {
        const T* from = reinterpret_cast<const T*>(p_.b_at(begin_ * p_.b_depth + first * p_.b_column));
        T* to = w_.b;
        const std::int64_t whole = p_.b_column == 1 ? (last - first) / kColumns<T> : 0;
        for (std::int64_t p = 0; whole > 0 && p < depth_; ++p) {  // by rows, as they lie in memory
            for (std::int64_t panel = 0; panel < whole; ++panel) {
                const T* const row = from + p * p_.b_depth + panel * kColumns<T>;
                T* const out = to + (panel * depth_ + p) * kColumns<T>;
#pragma GCC unroll 2
                for (int j = 0; j < kVectors; ++j)
                    store_vector<T>(load_vector(row + j * kLanes<T>), out + j * kLanes<T>);
            }
        }
        for (std::int64_t column = whole * kColumns<T>; column < last - first; column += kColumns<T>) {
            const std::int64_t columns = std::min(kColumns<T>, last - first - column), width = padded<T>(columns);
            pack(from + column * p_.b_column, p_.operand, p_.b_depth, p_.b_column, depth_, columns,
                 to + column * depth_, width, width);
        }
    }

    void multiply_group(std::int64_t first, std::int64_t last) const {
        pack_b(first, last);
        const bool accumulate = begin_ > 0 || p_.beta != 0;
        for (std::int64_t i = 0; i < rows_; i += kRows) {  // along rows of c, whose pages may be one each
            for (std::int64_t column = first; column < last; column += kColumns<T>)
                tile(i, w_.b + (column - first) * depth_, column, std::min(kColumns<T>, last - column), accumulate);
        }
        if (begin_ + depth_ < p_.k || (!p_.has_bias && p_.activation == Activation::none)) return;
        Problem rest = p_;  // what was in c is part of the sums
        rest.beta = 0;
        for (std::int64_t column = first; column < last; column += Patch::kMaxColumns) {
            const std::int64_t columns = std::min(Patch::kMaxColumns, last - column);
            T* const c = c_at(row_, column);
            finish(rest, {rows_, columns, column}, c, p_.c_row, reinterpret_cast<std::byte*>(c));
        }
    }

    /// Rows of the block from its `first` on.
    void tile(std::int64_t first, const T* b, std::int64_t column, std::int64_t columns, bool accumulate) const {
        const std::int64_t row = row_ + first, rows = std::min<std::int64_t>(kRows, rows_ - first);
        const bool in_place = rows_in_place_ && rows == kRows, narrow = columns <= kLanes<T>;
        const std::int64_t width = narrow ? kLanes<T> : kColumns<T>;
        const auto multiply_into = [&](T* c, std::int64_t c_row, bool adds) {
            if (in_place) {
                const T* const a = a_at(row);
                narrow ? multiply<T, 1, false>(a, p_.a_row, b, depth_, c, c_row, adds)
                       : multiply<T, kVectors, false>(a, p_.a_row, b, depth_, c, c_row, adds);
            } else {
                const T* const a = w_.a + first * depth_;
                narrow ? multiply<T, 1, true>(a, 0, b, depth_, c, c_row, adds)
                       : multiply<T, kVectors, true>(a, 0, b, depth_, c, c_row, adds);
            }
        };
        if (rows == kRows && columns == width) return multiply_into(c_at(row, column), p_.c_row, accumulate);
        T edge[kRows * kColumns<T>];
        multiply_into(edge, width, false);
        for (std::int64_t i = 0; i < rows; ++i) {
            T* const c = c_at(row + i, column);
            for (std::int64_t j = 0; j < columns; ++j) c[j] = (accumulate ? c[j] : T{0}) + edge[i * width + j];
        }
    }

    const Problem& p_;
    const Workspace<T> w_;
    bool rows_in_place_ = false;          ///< whole panels of a are read where they lie
    std::int64_t row_ = 0, rows_ = 0;     ///< of the block of a
    std::int64_t begin_ = 0, depth_ = 0;  ///< of k
};

template <class T>
void compute(CpuStream& stream, const Problem& p, std::byte* scratch) {
    const Division<T> by(p, stream.threads);
    const std::size_t bytes = Workspace<T>::bytes(p, by) + kScratchGap;
    parallel_for(stream, by.parts, p.m * p.n * p.k / 8, [&](std::int64_t part) {
        const auto bound = [&](std::int64_t of) {
            return std::min(of * by.units / by.parts * by.unit, by.by_rows ? p.m : p.n);
        };
        Share<T> share(p, Workspace<T>(p, by, scratch + static_cast<std::size_t>(part) * bytes));
        by.by_rows ? share.compute(bound(part), bound(part + 1), 0, p.n)
                   : share.compute(0, p.m, bound(part), bound(part + 1));
    });
}

template <class T>
std::size_t scratch_of(const Problem& p, int threads) {
    const Division<T> by(p, threads);
    return static_cast<std::size_t>(by.parts) * (Workspace<T>::bytes(p, by) + kScratchGap) - kScratchGap;
}

}  // namespace

bool takes_panels(const Problem& p) {
    return p.batch_rank == 0 && (p.operand == Dtype::f32 || p.operand == Dtype::f64) && p.result == p.operand &&
           p.c_column == 1 && p.k > 0 && p.m * p.n * p.k >= kLeastWork;
}

std::size_t panels_scratch(int threads, const Problem& p) {
    return p.operand == Dtype::f64 ? scratch_of<double>(p, threads) : scratch_of<float>(p, threads);
}

void panels_matmul(CpuStream& stream, const Problem& p, std::byte* scratch) {
    p.operand == Dtype::f64 ? compute<double>(stream, p, scratch) : compute<float>(stream, p, scratch);
}

}  // namespace headroom::kernels
