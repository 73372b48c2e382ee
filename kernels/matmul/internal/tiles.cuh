#pragma once
// A block's 64 x 64 tile of a product, summed from tiles of both operands in shared memory: the inner loops of the
// project's own matrix products and convolutions on GPUs. Device code.
//
//     TileSums<T> sums(block);                                  // all threads, once
//     sums.clear(block);
//     for (begin = 0; begin < k; begin += TileSums<T>::kDepth) {
//         for (each (i, d) of this thread) sums.left(i, d) = ..., sums.right(j, d) = ...;   // zeros beyond the ends
//         block.sync();
//         sums.add(block);
//         block.sync();                                         // before the tiles are overwritten
//     }
//     sums.for_each(block, true, [&](int i, int j, auto sum) { ... });
#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/shape.hpp>

namespace headroom::kernels::device {

inline constexpr int kTile = 64;  // rows and columns

/// For f32 and f64. Each of 256 threads sums 4 x 4 elements, 16 rows and columns apart, so that threads of a warp read
/// neighbours.
template <class T>
class TileSums {
  public:
    using Sum = T;
    static constexpr unsigned kThreads = 256;
    static constexpr int kDepth = 16, kPitch = kTile + 1, kRowPitch = 1, kDepthPitch = kPitch;
    static constexpr std::size_t kSharedBytes = 2 * shared_size<T>(kDepth * kPitch);

    HEADROOM_DEVICE explicit TileSums(Block& block)
        : left(block.shared<T>(kDepth * kPitch)), right(block.shared<T>(kDepth * kPitch)) {}

    HEADROOM_DEVICE void clear(Block&) {
#pragma unroll
        for (auto& line : sums_)
#pragma unroll
            for (T& sum : line) sum = T{};
    }

    /// The products of these tiles are summed separately: one long sum would be less accurate, because each step rounds
    /// at its full size.
    HEADROOM_DEVICE void add(Block& block) {
        const int x = static_cast<int>(block.thread()) % kStep, y = static_cast<int>(block.thread()) / kStep;
        T part[kEach][kEach] = {};
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
            T l[kEach], r[kEach];
#pragma unroll
            for (int i = 0; i < kEach; ++i) l[i] = left[d * kPitch + y + i * kStep];
#pragma unroll
            for (int j = 0; j < kEach; ++j) r[j] = right[d * kPitch + x + j * kStep];
#pragma unroll
            for (int i = 0; i < kEach; ++i)
#pragma unroll
                for (int j = 0; j < kEach; ++j) part[i][j] += l[i] * r[j];
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int j = 0; j < kEach; ++j) sums_[i][j] += part[i][j];
    }

    /// Calls `write(i, j, sum)` for all elements, each by one thread.
    template <class Write>
    HEADROOM_DEVICE void for_each(Block& block, bool, Write&& write) const {
        const int x = static_cast<int>(block.thread()) % kStep, y = static_cast<int>(block.thread()) / kStep;
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int j = 0; j < kEach; ++j) write(y + i * kStep, x + j * kStep, sums_[i][j]);
    }

    /// Element (i, d) is at i * kRowPitch + d * kDepthPitch.
    Shared<T> left, right;

  private:
    static constexpr int kEach = 4, kStep = kTile / kEach;
    T sums_[kEach][kEach];
};

/// For f16 and bf16 on tensor cores. Each of four warps sums 32 x 32 elements; shared memory turns any strides into
/// tiles.
template <class T>
class HalfTileSums {
  public:
    using Sum = float;
    static constexpr unsigned kThreads = 128;
    static constexpr int kDepth = 32, kPitch = kDepth + 8, kRowPitch = kPitch, kDepthPitch = 1;
    static constexpr int kSumPitch = kTile + 4;
    static constexpr std::size_t kSharedBytes =
        2 * shared_size<T>(kTile * kPitch) + shared_size<float>(kTile * kSumPitch);

    HEADROOM_DEVICE explicit HalfTileSums(Block& block)
        : left(block.shared<T>(kTile * kPitch)),
          right(block.shared<T>(kTile * kPitch)),
          result_(block.shared<float>(kTile * kSumPitch)) {}

    HEADROOM_DEVICE void clear(Block& block) {
#pragma unroll
        for (auto& line : sums_)
#pragma unroll
            for (auto& fragment : line) block.fill(fragment, 0.0f);
    }

    HEADROOM_DEVICE void add(Block& block) {
        const int top = static_cast<int>(block.warp()) / 2 * 32, side = static_cast<int>(block.warp()) % 2 * 32;
#pragma unroll
        for (int d = 0; d < kDepth; d += kFragment) {
            Tile<Operand::a, T> l[2];
            Tile<Operand::b, T, Layout::column> r[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) block.load_tile(l[i], left, (top + i * kFragment) * kPitch + d, kPitch);
#pragma unroll
            for (int j = 0; j < 2; ++j) block.load_tile(r[j], right, (side + j * kFragment) * kPitch + d, kPitch);
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) block.multiply_add(sums_[i][j], l[i], r[j]);
        }
    }

    /// Calls `write(i, j, sum)` once for each element; neighbouring threads are in a row or, if not `along_row`, in a
    /// column. Synchronises the block before and after.
    template <class Write>
    HEADROOM_DEVICE void for_each(Block& block, bool along_row, Write&& write) {
        const int top = static_cast<int>(block.warp()) / 2 * 32, side = static_cast<int>(block.warp()) % 2 * 32;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int at = (top + i * kFragment) * kSumPitch + side + j * kFragment;
                block.store_tile(result_, at, sums_[i][j], kSumPitch);
            }
        }
        block.sync();
        for (int e = static_cast<int>(block.thread()); e < kTile * kTile; e += static_cast<int>(block.threads())) {
            const int i = along_row ? e / kTile : e % kTile, j = along_row ? e % kTile : e / kTile;
            const float sum = result_[i * kSumPitch + j];
            write(i, j, sum);
        }
        block.sync();  // before the next tile overwrites the result
    }

    Shared<T> left, right;

  private:
    static constexpr int kFragment = 16;
    Shared<float> result_;
    Accumulator sums_[2][2];
};

template <>
class TileSums<f16> : public HalfTileSums<f16> {
    using HalfTileSums::HalfTileSums;
};
template <>
class TileSums<bf16> : public HalfTileSums<bf16> {
    using HalfTileSums::HalfTileSums;
};

}  // namespace headroom::kernels::device
