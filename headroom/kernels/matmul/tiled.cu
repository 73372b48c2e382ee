#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/matmul/internal/activation.hpp>
#include <headroom/kernels/matmul/internal/tiled.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr int kTile = 64;                    // rows and columns of c for a block
constexpr std::int64_t kMostBatches = 1024;  // at once; then blocks go on to further ones

/// Writes element (i, j) of the c that begins at `offset`.
template <class T>
HEADROOM_DEVICE void finish(const Problem& p, T sum, std::int64_t i, std::int64_t j, std::int64_t offset) {
    const std::int64_t at = offset + i * p.c_row + j * p.c_column;
    if (p.beta != 0.0f) sum += static_cast<T>(p.beta) * load_as<T>(p.c, p.result, at);
    if (p.has_bias) sum += load_as<T>(p.bias, p.bias_dtype, j * p.bias_step);
    store_as<T>(p.c, p.result, at, activated(p.activation, sum));
}

/// Copies rows [row, row + kTile) and `Depth` columns of a matrix to shared memory, zeros beyond its ends: element
/// (i, d) to tile[i * RowPitch + d * DepthPitch]. Neighbouring threads read along the axis of the smaller stride.
template <int Depth, int RowPitch, int DepthPitch, class T>
HEADROOM_DEVICE void load_tile(Block& block, Shared<T> tile, const T* matrix, std::int64_t row, std::int64_t rows,
                               std::int64_t row_stride, std::int64_t begin, std::int64_t depth,
                               std::int64_t depth_stride) {
    const bool along_depth = depth_stride <= row_stride;
    for (int e = static_cast<int>(block.thread()); e < kTile * Depth; e += static_cast<int>(block.threads())) {
        const int i = along_depth ? e / Depth : e % kTile, d = along_depth ? e % Depth : e / kTile;
        T value{};
        if (row + i < rows && begin + d < depth) value = matrix[(row + i) * row_stride + (begin + d) * depth_stride];
        tile[i * RowPitch + d * DepthPitch] = value;
    }
}

/// f32 and f64. Each of 256 threads sums 4 x 4 elements, 16 rows and columns apart, so that threads of a warp read
/// neighbours.
template <class T>
struct Plain {
    static constexpr unsigned kMaxThreads = 256;
    static constexpr int kDepth = 16, kPitch = kTile + 1, kEach = 4, kStep = kTile / kEach;

    HEADROOM_DEVICE void operator()(Block& block, const Problem p, std::uint32_t column_tiles) const {
        const Shared<T> left = block.shared<T>(kDepth * kPitch), right = block.shared<T>(kDepth * kPitch);
        const std::int64_t row = std::int64_t{block.x() / column_tiles} * kTile;
        const std::int64_t column = std::int64_t{block.x() % column_tiles} * kTile;
        for (std::int64_t batch = block.y(); batch < p.batches(); batch += block.grid_y())
            one(block, p, p.offset(batch), row, column, left, right);
    }

  private:
    HEADROOM_DEVICE static void one(Block& block, const Problem& p, const BatchOffset& offset, std::int64_t row,
                                    std::int64_t column, Shared<T> left, Shared<T> right) {
        const T* a = reinterpret_cast<const T*>(p.a) + offset.a;
        const T* b = reinterpret_cast<const T*>(p.b) + offset.b;
        const int x = static_cast<int>(block.thread()) % kStep, y = static_cast<int>(block.thread()) / kStep;
        T sums[kEach][kEach] = {};
        for (std::int64_t begin = 0; begin < p.k; begin += kDepth) {
            load_tile<kDepth, 1, kPitch>(block, left, a, row, p.m, p.a_row, begin, p.k, p.a_depth);
            load_tile<kDepth, 1, kPitch>(block, right, b, column, p.n, p.b_column, begin, p.k, p.b_depth);
            block.sync();
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
                    for (int j = 0; j < kEach; ++j) sums[i][j] += l[i] * r[j];
            }
            block.sync();  // before the tiles are overwritten
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
            for (int j = 0; j < kEach; ++j) {
                const std::int64_t at_row = row + y + i * kStep, at_column = column + x + j * kStep;
                if (at_row < p.m && at_column < p.n) finish(p, sums[i][j], at_row, at_column, offset.c);
            }
        }
    }
};

/// f16 and bf16 on tensor cores. Each of four warps sums 32 x 32 elements; shared memory makes tiles of any strides.
template <class T>
struct Halves {
    static constexpr unsigned kMaxThreads = 128;
    static constexpr int kDepth = 32, kPitch = kDepth + 8, kFragment = 16, kSumPitch = kTile + 4;

    HEADROOM_DEVICE void operator()(Block& block, const Problem p, std::uint32_t column_tiles) const {
        const Shared<T> left = block.shared<T>(kTile * kPitch), right = block.shared<T>(kTile * kPitch);
        const Shared<float> result = block.shared<float>(kTile * kSumPitch);
        const std::int64_t row = std::int64_t{block.x() / column_tiles} * kTile;
        const std::int64_t column = std::int64_t{block.x() % column_tiles} * kTile;
        for (std::int64_t batch = block.y(); batch < p.batches(); batch += block.grid_y()) {
            const BatchOffset offset = p.offset(batch);
            sum(block, p, offset, row, column, left, right, result);
            block.sync();
            write(block, p, offset, row, column, result);
            block.sync();  // before the next batch overwrites the result, with k = 0 at once
        }
    }

  private:
    HEADROOM_DEVICE static void sum(Block& block, const Problem& p, const BatchOffset& offset, std::int64_t row,
                                    std::int64_t column, Shared<T> left, Shared<T> right, Shared<float> result) {
        const T* a = reinterpret_cast<const T*>(p.a) + offset.a;
        const T* b = reinterpret_cast<const T*>(p.b) + offset.b;
        const int top = static_cast<int>(block.warp()) / 2 * 32, side = static_cast<int>(block.warp()) % 2 * 32;
        Accumulator sums[2][2];
#pragma unroll
        for (auto& line : sums)
#pragma unroll
            for (auto& fragment : line) block.fill(fragment, 0.0f);
        for (std::int64_t begin = 0; begin < p.k; begin += kDepth) {
            load_tile<kDepth, kPitch, 1>(block, left, a, row, p.m, p.a_row, begin, p.k, p.a_depth);
            load_tile<kDepth, kPitch, 1>(block, right, b, column, p.n, p.b_column, begin, p.k, p.b_depth);
            block.sync();
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
                    for (int j = 0; j < 2; ++j) block.multiply_add(sums[i][j], l[i], r[j]);
            }
            block.sync();  // before the tiles are overwritten
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int at = (top + i * kFragment) * kSumPitch + side + j * kFragment;
                block.store_tile(result, at, sums[i][j], kSumPitch);
            }
        }
    }

    HEADROOM_DEVICE static void write(Block& block, const Problem& p, const BatchOffset& offset, std::int64_t row,
                                      std::int64_t column, Shared<float> result) {
        const bool along_row = p.c_column <= p.c_row;
        for (int e = static_cast<int>(block.thread()); e < kTile * kTile; e += static_cast<int>(block.threads())) {
            const int i = along_row ? e / kTile : e % kTile, j = along_row ? e % kTile : e / kTile;
            if (row + i < p.m && column + j < p.n)
                finish<float>(p, result[i * kSumPitch + j], row + i, column + j, offset.c);
        }
    }
};

template <class Kernel>
void launch_tiles(CudaStream& stream, const Kernel& kernel, const Problem& p, std::size_t shared_bytes) {
    const std::uint32_t row_tiles = blocks_for(p.m, kTile), column_tiles = blocks_for(p.n, kTile);
    const LaunchShape shape{.x = row_tiles * column_tiles,
                            .y = static_cast<std::uint32_t>(std::min(p.batches(), kMostBatches)),
                            .threads = Kernel::kMaxThreads,
                            .shared_bytes = shared_bytes};
    launch(stream, shape, kernel, p, column_tiles);
}

template <class T>
void launch_plain(CudaStream& stream, const Problem& p) {
    launch_tiles(stream, Plain<T>{}, p, 2 * shared_size<T>(Plain<T>::kDepth * Plain<T>::kPitch));
}

template <class T>
void launch_halves(CudaStream& stream, const Problem& p) {
    using Kernel = Halves<T>;
    launch_tiles(stream, Kernel{}, p,
                 2 * shared_size<T>(kTile * Kernel::kPitch) + shared_size<float>(kTile * Kernel::kSumPitch));
}

}  // namespace

void tiled_matmul(CudaStream& stream, const Problem& problem) {
    switch (problem.operand) {
        case Dtype::f64:
            return launch_plain<double>(stream, problem);
        case Dtype::f16:
            return launch_halves<f16>(stream, problem);
        case Dtype::bf16:
            return launch_halves<bf16>(stream, problem);
        default:
            return launch_plain<float>(stream, problem);
    }
}

}  // namespace headroom::kernels
