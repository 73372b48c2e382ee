#pragma once
// The common part of plain attention, forward and backward: for f32, f64, and heads too wide for the tensor cores'
// shared memory. A block of 16 x 16 threads owns kRows rows of a head and a slice of kRows columns of their result, and
// walks over kRows rows of the other side at a time. Scores are summed in registers, in chunks of columns from both
// sides' rows; each slice of a wider head recomputes them. A thread has every 16th row and, for scores, every 16th
// column; for results, neighbouring columns.
//
//     Plain<float>::scores(block, space, {k, offset, first, keys}, {q, ...}, width, products);   // in registers
#include <headroom/kernels/attention/internal/heads.cuh>

namespace headroom::kernels::attention_device {

/// Rows [first, ...) of a head that begins at `head` and has `rows` rows.
struct HeadRows {
    HeadView x;
    std::int64_t head, first, rows;

    HEADROOM_DEVICE std::int64_t offset(int row) const { return head + (first + row) * x.position; }
};

template <class T>
struct Plain {
    static constexpr int kSide = 16;             // threads
    static constexpr int kEach = kWide<T>;       // rows, and columns, per thread
    static constexpr int kRows = kSide * kEach;  // per block
    static constexpr int kDepth = 32;            // columns of a chunk
    static constexpr unsigned kThreads = kSide * kSide;
    using Wide = Vector<T, kEach>;
    using Products = T[kEach][kEach];

    // 16 bytes to avoid bank conflicts.
    static constexpr int kChunkStride = kDepth + kEach, kSliceStride = kRows + kEach;

    /// Shared memory of a block: a chunk of each side, the weights, and the other side's slice.
    struct Space {
        Shared<T> own, other, weights, slice;
        HEADROOM_DEVICE explicit Space(Block& block)
            : own(block.shared<T>(kRows * kChunkStride)),
              other(block.shared<T>(kRows * kChunkStride)),
              weights(block.shared<T>(kRows * kSliceStride)),
              slice(block.shared<T>(kRows * kSliceStride)) {}
        static constexpr std::size_t bytes() {
            return 2 * shared_size<T>(kRows * kChunkStride) + 2 * shared_size<T>(kRows * kSliceStride);
        }
    };

    HEADROOM_DEVICE static int own_row(const Block& block, int i) {
        return static_cast<int>(block.thread()) / kSide + i * kSide;
    }
    HEADROOM_DEVICE static int other_row(const Block& block, int j) {
        return static_cast<int>(block.thread()) % kSide + j * kSide;
    }
    /// The first of the thread's kEach columns of a slice.
    HEADROOM_DEVICE static int column(const Block& block) { return static_cast<int>(block.thread()) % kSide * kEach; }

    HEADROOM_DEVICE static void clear(Products& products) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int j = 0; j < kEach; ++j) products[i][j] = T(0);
    }

    /// Loads kColumns columns from `first_column` on of kRows rows, with zeros out of range. Synchronises the block
    /// afterwards.
    template <int kColumns>
    HEADROOM_DEVICE static void load_columns(Block& block, const HeadRows& from, int first_column, int width,
                                             Shared<T> to) {
        constexpr int kVectors = kColumns / kEach, kStride = kColumns + kEach;
        const int thread = static_cast<int>(block.thread());
        if (from.x.wide && from.x.dtype == dtype_of<T>) {
#pragma unroll
            for (int i = 0; i < kRows * kVectors; i += kThreads) {
                const int row = (i + thread) / kVectors, column = (i + thread) % kVectors * kEach;
                Wide values{};
                if (from.first + row < from.rows && first_column + column < width)
                    values = block.load<kEach>(from.x.at<const T>(from.offset(row) + first_column + column));
                block.store(to, row * kStride + column, values);
            }
        } else {
#pragma unroll 1
            for (int i = thread; i < kRows * kColumns; i += kThreads) {
                const int row = i / kColumns, column = i % kColumns;
                T value = T(0);
                if (from.first + row < from.rows && first_column + column < width)
                    value = load_as<T>(from.x.data, from.x.dtype,
                                       from.offset(row) + (first_column + column) * from.x.column);
                to[row * kStride + column] = value;
            }
        }
    }

    /// products[i][j] = own row i times other row j.
    HEADROOM_DEVICE static void scores(Block& block, const Space& space, const HeadRows& own, const HeadRows& other,
                                       int width, Products& products) {
        clear(products);
        for (int first = 0; first < width; first += kDepth) {
            block.sync();  // all threads are done with the previous chunk
            load_columns<kDepth>(block, own, first, width, space.own);
            load_columns<kDepth>(block, other, first, width, space.other);
            block.sync();
#pragma unroll 2
            for (int d = 0; d < kDepth; d += kEach) {
                Wide x[kEach], y[kEach];
#pragma unroll
                for (int i = 0; i < kEach; ++i) {
                    x[i] = block.load<kEach>(space.own, own_row(block, i) * kChunkStride + d);
                    y[i] = block.load<kEach>(space.other, other_row(block, i) * kChunkStride + d);
                }
                multiply(x, y, products);
            }
        }
    }

    /// Writes the thread's share of the weights for the other threads of its warp.
    HEADROOM_DEVICE static void put_weights(Block& block, const Space& space, const Products& weights) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int j = 0; j < kEach; ++j)
                space.weights[own_row(block, i) * kSliceStride + other_row(block, j)] = weights[i][j];
    }

    /// sums += weights times the other side's rows, for columns from `first_column` on. Synchronises the block before
    /// and after.
    HEADROOM_DEVICE static void add(Block& block, const Space& space, const HeadRows& other, int first_column,
                                    int width, Products& sums) {
        load_columns<kRows>(block, other, first_column, width, space.slice);
        block.sync();
#pragma unroll 2
        for (int r = 0; r < kRows; r += kEach) {
            Wide x[kEach], y[kEach], transposed[kEach];
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                x[i] = block.load<kEach>(space.weights, own_row(block, i) * kSliceStride + r);
                y[i] = block.load<kEach>(space.slice, (r + i) * kSliceStride + column(block));
            }
#pragma unroll
            for (int i = 0; i < kEach; ++i)
#pragma unroll
                for (int j = 0; j < kEach; ++j) transposed[j][i] = y[i][j];
            multiply(x, transposed, sums);
        }
        block.sync();
    }

    /// target = beta * target + factor * sums
    HEADROOM_DEVICE static void write(Block& block, const Space& space, const Products& sums, const HeadRows& to,
                                      int first_column, int width, T factor, float beta) {
        const int first = first_column + column(block), part = static_cast<int>(block.thread()) * kEach * kEach;
        const bool wide = to.x.wide && to.x.dtype == dtype_of<T>;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int row = own_row(block, i);
            if (!wide) {  // through memory, because registers have no addresses
#pragma unroll
                for (int j = 0; j < kEach; ++j) space.slice[part + i * kEach + j] = factor * sums[i][j];
            } else if (to.first + row < to.rows && first < width) {
                T* const target = to.x.at<T>(to.offset(row) + first);
                Wide values{};
                if (beta != 0.0f) values = block.load<kEach>(static_cast<const T*>(target));
#pragma unroll
                for (int j = 0; j < kEach; ++j) values[j] = factor * sums[i][j] + static_cast<T>(beta) * values[j];
                block.store(target, values);
            }
        }
#pragma unroll 1
        for (int i = 0; i < (wide ? 0 : kEach * kEach); ++i) {
            const int row = own_row(block, i / kEach), at = first + i % kEach;
            if (to.first + row < to.rows && at < width)
                accumulate_as<T>(to.x.data, to.x.dtype, to.offset(row) + at * to.x.column, beta, space.slice[part + i]);
        }
    }

  private:
    HEADROOM_DEVICE static void multiply(const Wide (&x)[kEach], const Wide (&y)[kEach], Products& products) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int j = 0; j < kEach; ++j)
#pragma unroll
                for (int l = 0; l < kEach; ++l) products[i][j] += x[i][l] * y[j][l];
    }
};

/// Slices that cover a head; at least one, which writes lse.
template <class T>
std::uint32_t slices(std::int64_t width) {
    return width == 0 ? 1 : blocks_for(width, Plain<T>::kRows);
}

/// Calls `work` with the compute type.
template <class Work>
void dispatch_plain(Dtype dtype, Work&& work) {
    if (dtype == Dtype::f64) {
        work.template operator()<double>();
    } else {
        work.template operator()<float>();
    }
}

}  // namespace headroom::kernels::attention_device
