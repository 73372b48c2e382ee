#pragma once
// The common part of attention for halves on tensor cores, forward and backward. A block owns 64 rows of a head
// (queries, or keys for their gradients), 16 per warp, and walks over the rows of the other side, 64 at a time in
// shared memory; on both sides 32 if a GPU's shared memory is too small for 64. Sums stay in the warps' fragments. Work
// by element or row is done on a stage of floats in shared memory, one per warp, with two lanes per row.
//
//     load_rows<T, 64, kRows>(block, k, k.row(b, 0, h), first, keys, width, tile);
//     block.sync();
//     multiply_rows<T, 64, 4>(block, queries, warp_row, tile, 0, scores);      // scores = q k^T
#include <bit>

#include <headroom/kernels/attention/internal/heads.cuh>

namespace headroom::kernels::attention_device {

inline constexpr int kTile = 16;                       // of a fragment
inline constexpr int kMostRows = 64, kFewerRows = 32;  // per block, on either side
inline constexpr int kStageStride = 72;  // rows are eight banks apart, so that two lanes per row cause no conflicts
inline constexpr int kStageSize = kTile * kStageStride;

/// For a block of kRows rows: warps, threads, and a head's rows in shared memory, with columns up to kWidth; 16 extra
/// bytes per row avoid bank conflicts.
template <int kRows>
inline constexpr unsigned kTensorWarps = kRows / kTile;
template <int kRows>
inline constexpr unsigned kTensorThreads = kTensorWarps<kRows>* kWarp;
template <int kWidth>
inline constexpr int kTileStride = kWidth + 8;
template <int kWidth, int kRows>
inline constexpr int kTileSize = kRows* kTileStride<kWidth>;

/// Clamps a number of rows to the block.
HEADROOM_DEVICE int within_block(std::int64_t count) {
    return static_cast<int>(count < 0 ? 0 : count < kMostRows ? count : kMostRows);
}

/// Loads rows [first, first + kRows) of the `rows` rows from offset `head` on, with zeros for rows out of range and for
/// columns from the width up to kWidth.
template <class T, int kWidth, int kRows>
HEADROOM_DEVICE void load_rows(Block& block, const HeadView& x, std::int64_t head, std::int64_t first,
                               std::int64_t rows, int width, Shared<T> tile) {
    constexpr int kVectors = std::bit_ceil(kWidth / 8u);  // threads per row
    constexpr int kStep = static_cast<int>(kTensorThreads<kRows>) / kVectors, kRounds = kRows / kStep;
    const int row = static_cast<int>(block.thread()) / kVectors, column = block.thread() % kVectors * 8;
    if (column >= kWidth) return;
    Vector<T, 8> values[kRounds] = {};
    if (x.wide) {  // all loads before the first store
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            const std::int64_t at = first + row + i * kStep;
            if (at < rows && column < width) values[i] = block.load<8>(x.at<const T>(head + at * x.position + column));
        }
#pragma unroll
        for (int i = 0; i < kRounds; ++i)
            block.store(tile, (row + i * kStep) * kTileStride<kWidth> + column, values[i]);
    } else {
#pragma unroll 1
        for (int i = 0; i < kRows; i += kStep) {
            const std::int64_t at = first + row + i;
            Vector<T, 8> found{};
            if (at < rows) found = load_vector<T>(block, x, head + at * x.position, column, width);
            block.store(tile, (row + i) * kTileStride<kWidth> + column, found);
        }
    }
}

/// sums[i] = 16 rows of a from `row_a` on times the transpose of 16 rows of b from `row_b` + 16 i on.
template <class T, int kWidth, int kCount>
HEADROOM_DEVICE void multiply_rows(Block& block, Shared<T> a, int row_a, Shared<T> b, int row_b,
                                   Accumulator (&sums)[kCount]) {
    Tile<Operand::a, T> left;
    Tile<Operand::b, T, Layout::column> right;
#pragma unroll
    for (int i = 0; i < kCount; ++i) block.fill(sums[i], 0.0f);
#pragma unroll
    for (int column = 0; column < kWidth; column += kTile) {
        block.load_tile(left, a, row_a * kTileStride<kWidth> + column, kTileStride<kWidth>);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            block.load_tile(right, b, (row_b + i * kTile) * kTileStride<kWidth> + column, kTileStride<kWidth>);
            block.multiply_add(sums[i], left, right);
        }
    }
}

/// sums[i] += the 16 x 16 tile of weights times columns from 16 i on of 16 rows of b from `row_b` on.
template <class T, int kWidth>
HEADROOM_DEVICE void add_rows(Block& block, const Tile<Operand::a, T>& weights, Shared<T> b, int row_b,
                              Accumulator (&sums)[kWidth / kTile]) {
    Tile<Operand::b, T> right;
#pragma unroll
    for (int i = 0; i < kWidth / kTile; ++i) {
        block.load_tile(right, b, row_b * kTileStride<kWidth> + i * kTile, kTileStride<kWidth>);
        block.multiply_add(sums[i], weights, right);
    }
}

/// Writes the warp's 16 rows from fragments to memory: target = beta * target + factor * sums. `first` is the number of
/// the first row out of `rows`, `factor` belongs to the lane's row.
template <class T, int kWidth>
HEADROOM_DEVICE void write_rows(Block& block, const Accumulator (&sums)[kWidth / kTile], Shared<float> stage,
                                const HeadView& to, std::int64_t head, std::int64_t first, std::int64_t rows, int width,
                                float factor, float beta) {
    constexpr int kPart = 64;  // columns of a stage
    const int row = static_cast<int>(block.lane()) / 2, half = block.lane() % 2 * 8;
    const std::int64_t target = head + (first + row) * to.position;
#pragma unroll
    for (int group = 0; group < kWidth; group += kPart) {
#pragma unroll
        for (int i = 0; i < kPart; i += kTile)
            if (group + i < kWidth) block.store_tile(stage, i, sums[(group + i) / kTile], kStageStride);
        block.warp_sync();
#pragma unroll 1
        for (int column = half; column < kPart && group + column < kWidth && first + row < rows; column += kTile) {
            Floats<8> values;
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                const Vector<float, 4> found = block.load<4>(stage, row * kStageStride + column + i);
#pragma unroll
                for (int j = 0; j < 4; ++j) values[i + j] = factor * found[j];
            }
            if (to.dtype == dtype_of<T>) {
                update_eight<T>(block, to, target, group + column, width, beta, values);
            } else {
                update_eight<float>(block, to, target, group + column, width, beta, values);
            }
        }
        block.warp_sync();
    }
}

/// Calls `work` with the element type and a tile width that fits; with masks or dropout only two widths, to keep the
/// number of kernels low.
template <class Extras, class Work>
void dispatch_tensor_cores(Dtype dtype, std::int64_t width, Work&& work) {
    const auto with_width = [&]<class T>(TypeTag<T>) {
        if (width <= 32 && !Extras::kAny) {
            if constexpr (!Extras::kAny) work.template operator()<T, 32>();
        } else if (width <= 64) {
            work.template operator()<T, 64>();
        } else if (width <= 96 && !Extras::kAny) {
            if constexpr (!Extras::kAny) work.template operator()<T, 96>();
        } else {
            work.template operator()<T, 128>();
        }
    };
    if (dtype == Dtype::f16) {
        with_width(TypeTag<f16>{});
    } else {
        with_width(TypeTag<bf16>{});
    }
}

/// Calls `start.operator()<kRows>()` with the most rows per block that fit the GPU's shared memory. `kMostBytes`: what
/// kMostRows takes. Only f16 runs on GPUs that have too little.
template <class T, std::size_t kMostBytes, class Start>
void with_rows_that_fit(const CudaStream& stream, Start&& start) {
    if constexpr (std::is_same_v<T, f16> && kMostBytes > device::kLeastShared) {
        if (stream.device->properties().shared_bytes < kMostBytes) return start.template operator()<kFewerRows>();
    }
    start.template operator()<kMostRows>();
}

}  // namespace headroom::kernels::attention_device
