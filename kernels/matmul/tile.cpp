#include <headroom/kernels/matmul/internal/tile.hpp>

#include <algorithm>
#include <type_traits>

namespace headroom::kernels {

namespace {

/// Products that are summed in registers before they are added to what is there: a longer sum would err more, since it
/// is rounded at its full size each time.
constexpr std::int64_t kSumDepth = 128;

template <class T>
struct Operands {
    const T* a;
    std::int64_t a_row;
    std::int64_t a_depth;
    const T* b;
    std::int64_t b_row;
    T* c;
    std::int64_t c_row;
    std::int64_t depth;
    bool accumulate;
};

/// The same over several runs of the depth; apart, since small products would notice the loop.
template <class T>
struct RunOperands : Operands<T> {
    std::int64_t runs, a_run, b_run;
};

/// As many rows as leave the registers room for a row of b and one element of a.
constexpr int rows_in_registers(int vectors) {
    return kTileVectors == 4 ? std::min(12, 24 / vectors) : std::min(6, 12 / vectors);
}

template <class T, int Rows, int Vectors, class AnyOperands>
void block(const AnyOperands& operands) {
    const std::int64_t a_row = operands.a_row;
    const std::int64_t c_row = operands.c_row;
    const T* a = operands.a;
    const T* b = operands.b;
    T* const c = operands.c;
    Vector<T> sum[Rows][Vectors];
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; ++j) sum[i][j] = Vector<T>{};
    }
    const auto add = [&] {
        for (std::int64_t p = 0; p < operands.depth; ++p) {
            Vector<T> row[Vectors];
#pragma GCC unroll 4
            for (int j = 0; j < Vectors; ++j) row[j] = load_vector(b + j * kLanes<T>);
#pragma GCC unroll 12
            for (int i = 0; i < Rows; ++i) {
                const T element = a[i * a_row];
#pragma GCC unroll 4
                for (int j = 0; j < Vectors; ++j) sum[i][j] += element * row[j];
            }
            a += operands.a_depth;
            b += operands.b_row;
        }
    };
    add();
    if constexpr (std::is_same_v<AnyOperands, RunOperands<T>>) {
        for (std::int64_t run = 1; run < operands.runs; ++run) {
            a = operands.a + run * operands.a_run;
            b = operands.b + run * operands.b_run;
            add();
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; ++j) {
            T* const to = c + i * c_row + j * kLanes<T>;
            store_vector<T>(operands.accumulate ? load_vector(to) + sum[i][j] : sum[i][j], to);
        }
    }
}

template <class T, int Rows, int Vectors, class AnyOperands>
void rows_of(AnyOperands& operands, std::int64_t& rows) {
    for (; rows >= Rows; rows -= Rows) {
        block<T, Rows, Vectors>(operands);
        operands.a += Rows * operands.a_row;
        operands.c += Rows * operands.c_row;
    }
}

template <class T, int Vectors, class AnyOperands>
void panel(AnyOperands operands, std::int64_t rows) {
    rows_of<T, rows_in_registers(Vectors), Vectors>(operands, rows);
    rows_of<T, 4, Vectors>(operands, rows);
    rows_of<T, 2, Vectors>(operands, rows);
    rows_of<T, 1, Vectors>(operands, rows);
}

template <class T, class AnyOperands>
void panels(AnyOperands operands, TileSize size) {
    std::int64_t vectors = size.columns / kLanes<T>;
    while (vectors > 0) {
        const auto width = static_cast<int>(std::min<std::int64_t>(vectors, kTileVectors));
        if (width == 1) panel<T, 1>(operands, size.rows);
        if (width == 2) panel<T, 2>(operands, size.rows);
        if constexpr (kTileVectors == 4) {
            if (width == 3) panel<T, 3>(operands, size.rows);
            if (width == 4) panel<T, 4>(operands, size.rows);
        }
        operands.b += width * kLanes<T>;
        operands.c += width * kLanes<T>;
        vectors -= width;
    }
}

}  // namespace

template <class T>
void tile_product(TileSize size, const T* a, std::int64_t a_row, std::int64_t a_depth, const T* b, std::int64_t b_row,
                  T* c, std::int64_t c_row, bool accumulate) {
    if (size.runs == 1 && size.depth <= kSumDepth)
        return panels<T>(Operands<T>{a, a_row, a_depth, b, b_row, c, c_row, size.depth, accumulate}, size);
    const std::int64_t runs = std::max<std::int64_t>(1, kSumDepth / std::max<std::int64_t>(1, size.depth));
    for (std::int64_t run = 0; run < size.runs; run += runs) {
        for (std::int64_t begin = 0; begin < size.depth; begin += kSumDepth, accumulate = true) {
            const Operands<T> operands{a + run * size.a_run + begin * a_depth,
                                       a_row,
                                       a_depth,
                                       b + run * size.b_run + begin * b_row,
                                       b_row,
                                       c,
                                       c_row,
                                       std::min(kSumDepth, size.depth - begin),
                                       accumulate};
            panels<T>(RunOperands<T>{operands, std::min(runs, size.runs - run), size.a_run, size.b_run}, size);
        }
    }
}

template void tile_product(TileSize, const float*, std::int64_t, std::int64_t, const float*, std::int64_t, float*,
                           std::int64_t, bool);
template void tile_product(TileSize, const double*, std::int64_t, std::int64_t, const double*, std::int64_t, double*,
                           std::int64_t, bool);

}  // namespace headroom::kernels
