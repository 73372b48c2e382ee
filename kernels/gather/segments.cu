// Sorted positions are cut into tiles of a fixed length. A thread sums a tile's positions for one column, or for as
// many as 16 bytes hold, and writes each row that begins and ends in the tile. What is left, a row that comes from the
// tile before or goes on in the next, is joined by a second kernel. So a row with many positions is the work of many
// threads, and the order of the sum depends on nothing but the keys.
#include <headroom/kernels/gather/internal/segments.hpp>

#include <headroom/kernels/device/launch.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 128;

template <class T, int N>
struct Numbers {
    T at[N];
};

/// One column at a time, any strides and dtypes.
template <class Compute>
struct AnyRows {
    using T = Compute;
    static constexpr int kWidth = 1;
    SegmentRows rows;

    HEADROOM_DEVICE Numbers<T, 1> read(Block&, std::int64_t position, std::int64_t column) const {
        const std::int64_t row = rows.positions.offsets(rows.first_position + position)[0];
        return {load_as<T>(rows.source, rows.source_dtype, row + rows.columns_at.offsets(column)[1])};
    }
    HEADROOM_DEVICE void write(Block&, std::int64_t row, std::int64_t column, float beta,
                               const Numbers<T, 1>& sum) const {
        const std::int64_t offset = rows.rows.offsets(rows.first_row + row)[0] + rows.columns_at.offsets(column)[0];
        accumulate_as<T>(rows.target, rows.target_dtype, offset, beta, row == rows.skipped ? T(0) : sum.at[0]);
    }
};

/// Contiguous rows of a source of f32, f16 or bf16 and a target of any of these, which begin at multiples of 16 bytes;
/// a column stands for kWidth of them.
template <class Element>
struct VectorRows {
    using T = float;
    static constexpr int kWidth = kWide<Element>;
    const Element* source;
    std::int64_t source_row;
    void* target;
    Dtype dtype;
    std::int64_t target_row;
    std::int64_t skipped;

    HEADROOM_DEVICE Numbers<T, kWidth> read(Block& block, std::int64_t position, std::int64_t column) const {
        const Floats<kWidth> x = block.load_floats<kWidth>(source + position * source_row + column * kWidth);
        Numbers<T, kWidth> result;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) result.at[k] = x[k];
        return result;
    }
    HEADROOM_DEVICE void write(Block& block, std::int64_t row, std::int64_t column, float beta,
                               Numbers<T, kWidth> sum) const {
        if (row == skipped) sum = {};
        const std::int64_t offset = row * target_row + column * kWidth;
        if (dtype == Dtype::f32) {
            write_as(block, static_cast<float*>(target) + offset, beta, sum);
        } else if (dtype == Dtype::f16) {
            write_as(block, static_cast<f16*>(target) + offset, beta, sum);
        } else {
            write_as(block, static_cast<bf16*>(target) + offset, beta, sum);
        }
    }

  private:
    template <class Target>
    HEADROOM_DEVICE static void write_as(Block& block, Target* p, float beta, const Numbers<T, kWidth>& sum) {
        Floats<kWidth> y{};
        if (beta != 0.0f) y = block.load_floats<kWidth>(p);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) y[k] = beta != 0.0f ? beta * y[k] + sum.at[k] : sum.at[k];
        block.store_floats(p, y);
    }
};

/// Sums that are not complete: [tile][column].
template <class T>
struct Partial {
    T* from_before;  ///< of the row that began in an earlier tile
    T* goes_on;      ///< of the row that begins here and goes on in the next tile
    std::int64_t columns, tile, tiles;
};

template <class RowsOf>
struct SumTiles {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kAtOnce = 4;  // rows under way at a time
    using T = typename RowsOf::T;
    using Sum = Numbers<T, RowsOf::kWidth>;

    RowsOf rows;
    Sorted sorted;
    Partial<T> partial;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, const Divisor columns) const {
        const std::int64_t work = partial.tiles * columns.value();
        for (std::int64_t i = block.global_thread(); i < work; i += block.global_threads()) {
            const auto tile = static_cast<std::int64_t>(columns.divide(static_cast<std::uint64_t>(i)));
            sum_tile(block, tile, i - tile * columns.value());
        }
    }

    HEADROOM_DEVICE void sum_tile(Block& block, std::int64_t tile, std::int64_t column) const {
        const std::int64_t begin = tile * partial.tile, end = min_of(begin + partial.tile, sorted.count);
        std::uint32_t row = sorted.keys[begin];
        bool from_before = begin > 0 && sorted.keys[begin - 1] == row;
        Sum sum = nothing();
        for (std::int64_t first = begin; first < end; first += kAtOnce) {
            std::uint32_t key[kAtOnce];
            Sum x[kAtOnce];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) {  // loads that need not wait for each other
                const std::int64_t i = min_of(first + k, end - 1);
                key[k] = sorted.keys[i];
                x[k] = rows.read(block, sorted.order[i], column);
            }
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) {
                if (first + k >= end) break;
                if (key[k] != row) {
                    finish(block, row, tile, column, from_before, false, sum);
                    row = key[k];
                    from_before = false;
                    sum = nothing();
                }
#pragma unroll
                for (int j = 0; j < RowsOf::kWidth; ++j) sum.at[j] += x[k].at[j];
            }
        }
        finish(block, row, tile, column, from_before, end < sorted.count && sorted.keys[end] == row, sum);
    }

    HEADROOM_DEVICE void finish(Block& block, std::uint32_t row, std::int64_t tile, std::int64_t column,
                                bool from_before, bool goes_on, const Sum& sum) const {
        if (!from_before && !goes_on) return rows.write(block, row, column, beta, sum);
        T* target = from_before ? partial.from_before : partial.goes_on;
        target += tile * partial.columns + column * RowsOf::kWidth;
        if constexpr (RowsOf::kWidth == 1) {
            *target = sum.at[0];
        } else {
            Floats<RowsOf::kWidth> values;
#pragma unroll
            for (int k = 0; k < RowsOf::kWidth; ++k) values[k] = sum.at[k];
            block.store_floats(target, values);
        }
    }

    /// Zero, but -0 + -0 = -0.
    HEADROOM_DEVICE static Sum nothing() {
        Sum sum;
#pragma unroll
        for (int k = 0; k < RowsOf::kWidth; ++k) sum.at[k] = T(-0.0);
        return sum;
    }
    HEADROOM_DEVICE static std::int64_t min_of(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
};

/// The first of the sorted positions from `begin` on whose key is at least `key`.
HEADROOM_DEVICE std::int64_t lower_bound(const Sorted& sorted, std::int64_t begin, std::uint32_t key) {
    std::int64_t end = sorted.count;
    while (begin < end) {
        const std::int64_t middle = begin + (end - begin) / 2;
        if (sorted.keys[middle] < key) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

template <class T>
struct JoinTiles {
    static constexpr unsigned kMaxThreads = kThreads;

    AnyRows<T> rows;
    Sorted sorted;
    Partial<T> partial;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, const Divisor columns) const {
        const std::int64_t work = (partial.tiles - 1) * columns.value();
        for (std::int64_t i = block.global_thread(); i < work; i += block.global_threads()) {
            const auto tile = static_cast<std::int64_t>(columns.divide(static_cast<std::uint64_t>(i)));
            join(block, tile, i - tile * columns.value());
        }
    }

    HEADROOM_DEVICE void join(Block& block, std::int64_t tile, std::int64_t column) const {
        const std::int64_t begin = tile * partial.tile, end = begin + partial.tile;
        const std::uint32_t row = sorted.keys[end];
        if (sorted.keys[end - 1] != row) return;                                              // nothing goes on
        if (begin > 0 && sorted.keys[begin] == row && sorted.keys[begin - 1] == row) return;  // it began earlier
        const std::int64_t last = (lower_bound(sorted, end, row + 1) - 1) / partial.tile;
        T sum = partial.goes_on[tile * partial.columns + column];
#pragma unroll 4
        for (std::int64_t next = tile + 1; next <= last; ++next)
            sum += partial.from_before[next * partial.columns + column];
        rows.write(block, row, column, beta, {sum});
    }
};

template <class T>
struct ScaleOtherRows {
    static constexpr unsigned kMaxThreads = kThreads;

    AnyRows<T> rows;
    Sorted sorted;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, const Divisor columns) const {
        const std::int64_t work = rows.rows.rows.numel() * columns.value();
        for (std::int64_t i = block.global_thread(); i < work; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(columns.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t first = lower_bound(sorted, 0, static_cast<std::uint32_t>(row));
            if (first < sorted.count && sorted.keys[first] == row) continue;
            rows.write(block, row, i - row * columns.value(), beta, {T(0)});
        }
    }
};

struct ScaleElements {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<1> y, float beta) const {
        for (std::int64_t i = block.global_thread(); i < y.numel(); i += block.global_threads()) {
            if (y.dtype(0) == Dtype::f64) {
                y.accumulate<double>(0, y.offsets(i), beta, 0.0);
            } else {
                y.accumulate<float>(0, y.offsets(i), beta, 0.0f);
            }
        }
    }
};

struct ZeroBytes {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, unsigned char* y, std::int64_t bytes) const {
        for (std::int64_t i = block.global_thread(); i < bytes / 16; i += block.global_threads())
            block.store(y + 16 * i, Vector<unsigned char, 16>{});
        for (std::int64_t i = bytes / 16 * 16 + block.global_thread(); i < bytes; i += block.global_threads()) y[i] = 0;
    }
};

/// Joins what the tiles of `sum` left.
template <class RowsOf>
void sum_tiles(CudaStream& stream, const SumTiles<RowsOf>& sum, const AnyRows<typename RowsOf::T>& rows) {
    const std::int64_t columns = rows.rows.columns(), tiles = sum.partial.tiles;
    const std::int64_t width = columns / RowsOf::kWidth;
    launch(stream, {.x = grid_for(stream, tiles * width, kThreads), .loops = true, .threads = kThreads}, sum,
           Divisor(width));
    const JoinTiles<typename RowsOf::T> join{rows, sum.sorted, sum.partial, sum.beta};
    launch(stream, {.x = grid_for(stream, (tiles - 1) * columns, kThreads), .loops = true, .threads = kThreads}, join,
           Divisor(columns));
}

template <class T>
Partial<T> partial_sums(const SegmentPlan& plan, std::byte* scratch) {
    return {reinterpret_cast<T*>(scratch), reinterpret_cast<T*>(scratch + plan.list_bytes()), plan.columns, plan.tile(),
            plan.tiles()};
}

bool rows_of_units(const void* data, Dtype dtype, std::int64_t row) {
    return std::bit_cast<std::uintptr_t>(data) % 16 == 0 && row * static_cast<std::int64_t>(size_of(dtype)) % 16 == 0;
}

bool narrow_floating(Dtype dtype) { return dtype == Dtype::f32 || is_half(dtype); }

/// True if VectorRows takes these.
bool in_vectors(const SegmentRows& rows) {
    const auto width = 16 / static_cast<std::int64_t>(size_of(rows.source_dtype));
    return narrow_floating(rows.source_dtype) && narrow_floating(rows.target_dtype) && rows.positions.axes() == 1 &&
           rows.rows.axes() == 1 && rows.first_position == 0 && rows.first_row == 0 && rows.columns_at.axes() == 1 &&
           rows.columns_at.stride(0) == 1 && rows.columns_at.stride(1) == 1 && rows.columns() % width == 0 &&
           rows_of_units(rows.source, rows.source_dtype, rows.positions.stride(0)) &&
           rows_of_units(rows.target, rows.target_dtype, rows.rows.stride(0));
}

template <class Element>
void sum_vectors(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, const SegmentPlan& plan, float beta,
                 std::byte* scratch) {
    const VectorRows<Element> vectors{static_cast<const Element*>(rows.source),
                                      rows.positions.stride(0),
                                      rows.target,
                                      rows.target_dtype,
                                      rows.rows.stride(0),
                                      rows.skipped};
    sum_tiles<VectorRows<Element>>(stream, {vectors, sorted, partial_sums<float>(plan, scratch), beta}, {rows});
}

}  // namespace

SegmentRows::SegmentRows(const View& positions, const View& source_row, const View& rows, const View& target_row)
    : positions(Walk({&positions}, Walk::Order::shape), 1),
      rows(Walk({&rows}, Walk::Order::shape), 1),
      columns_at(Walk({&target_row, &source_row}), 2),
      source(source_row.data),
      target(target_row.data),
      source_dtype(source_row.dtype),
      target_dtype(target_row.dtype) {}

void sum_segments(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, const SegmentPlan& plan,
                  float beta, std::byte* scratch) {
    if (sorted.count == 0 || rows.columns() == 0) return;
    if (!in_vectors(rows)) {
        if (rows.target_dtype == Dtype::f64) {
            return sum_tiles<AnyRows<double>>(stream, {{rows}, sorted, partial_sums<double>(plan, scratch), beta},
                                              {rows});
        }
        return sum_tiles<AnyRows<float>>(stream, {{rows}, sorted, partial_sums<float>(plan, scratch), beta}, {rows});
    }
    if (rows.source_dtype == Dtype::f16) return sum_vectors<f16>(stream, sorted, rows, plan, beta, scratch);
    if (rows.source_dtype == Dtype::bf16) return sum_vectors<bf16>(stream, sorted, rows, plan, beta, scratch);
    sum_vectors<float>(stream, sorted, rows, plan, beta, scratch);
}

void scale_other_rows(CudaStream& stream, const Sorted& sorted, const SegmentRows& rows, float beta) {
    const std::int64_t work = rows.rows.numel() * rows.columns();
    if (work == 0 || beta == 1) return;
    const LaunchShape shape{.x = grid_for(stream, work, kThreads), .loops = true, .threads = kThreads};
    if (rows.target_dtype == Dtype::f64) {
        launch(stream, shape, ScaleOtherRows<double>{{rows}, sorted, beta}, Divisor(rows.columns()));
    } else {
        launch(stream, shape, ScaleOtherRows<float>{{rows}, sorted, beta}, Divisor(rows.columns()));
    }
}

void scale(CudaStream& stream, const View& y, float beta) {
    if (beta == 1 || y.numel() == 0) return;
    const auto bytes = y.numel() * static_cast<std::int64_t>(size_of(y.dtype));
    if (beta == 0 && y.is_contiguous() && std::bit_cast<std::uintptr_t>(y.data) % 16 == 0) {
        launch(stream, {.x = grid_for(stream, bytes / 16 + 1, kThreads), .loops = true, .threads = kThreads},
               ZeroBytes{}, y.as<unsigned char>(), bytes);
        return;
    }
    launch(stream, {.x = grid_for(stream, y.numel(), kThreads), .loops = true, .threads = kThreads}, ScaleElements{},
           Strided<1>({&y}), beta);
}

}  // namespace headroom::kernels
