#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/matmul/internal/activation.hpp>
#include <headroom/kernels/matmul/internal/tiled.hpp>
#include <headroom/kernels/matmul/internal/tiles.cuh>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr std::int64_t kMostBatches = 1024;  // at once; then blocks go on to further ones

/// Writes element (i, j) of the c that begins at `offset`.
template <class T>
HEADROOM_DEVICE void finish(const Problem& p, T sum, std::int64_t i, std::int64_t j, std::int64_t offset) {
    const std::int64_t at = offset + i * p.c_row + j * p.c_column;
    if (p.beta != 0.0f) sum += static_cast<T>(p.beta) * load_as<T>(p.c, p.result, at);
    if (p.has_bias) sum += load_as<T>(p.bias, p.bias_dtype, j * p.bias_step);
    store_as<T>(p.c, p.result, at, activated(p.activation, sum));
}

/// Copies rows [row, row + kTile) and `Sums::kDepth` columns of a matrix to shared memory, zeros beyond its ends.
/// Neighbouring threads read along the axis of the smaller stride.
template <class Sums, class T>
HEADROOM_DEVICE void load_tile(Block& block, Shared<T> tile, const T* matrix, std::int64_t row, std::int64_t rows,
                               std::int64_t row_stride, std::int64_t begin, std::int64_t depth,
                               std::int64_t depth_stride) {
    constexpr int kDepth = Sums::kDepth;
    const bool along_depth = depth_stride <= row_stride;
    for (int e = static_cast<int>(block.thread()); e < kTile * kDepth; e += static_cast<int>(block.threads())) {
        const int i = along_depth ? e / kDepth : e % kTile, d = along_depth ? e % kDepth : e / kTile;
        T value{};
        if (row + i < rows && begin + d < depth) value = matrix[(row + i) * row_stride + (begin + d) * depth_stride];
        tile[i * Sums::kRowPitch + d * Sums::kDepthPitch] = value;
    }
}

template <class T>
struct Tiled {
    static constexpr unsigned kMaxThreads = TileSums<T>::kThreads;
    static constexpr int kCapability = kTensorCapability<T>;

    HEADROOM_DEVICE void operator()(Block& block, const Problem p, std::uint32_t column_tiles) const {
        using Sums = TileSums<T>;
        Sums sums(block);
        const std::int64_t row = std::int64_t{block.x() / column_tiles} * kTile;
        const std::int64_t column = std::int64_t{block.x() % column_tiles} * kTile;
        for (std::int64_t batch = block.y(); batch < p.batches(); batch += block.grid_y()) {
            const BatchOffset offset = p.offset(batch);
            const T* a = reinterpret_cast<const T*>(p.a) + offset.a;
            const T* b = reinterpret_cast<const T*>(p.b) + offset.b;
            sums.clear(block);
            for (std::int64_t begin = 0; begin < p.k; begin += Sums::kDepth) {
                load_tile<Sums>(block, sums.left, a, row, p.m, p.a_row, begin, p.k, p.a_depth);
                load_tile<Sums>(block, sums.right, b, column, p.n, p.b_column, begin, p.k, p.b_depth);
                block.sync();
                sums.add(block);
                block.sync();  // before the tiles are overwritten
            }
            sums.for_each(block, p.c_column <= p.c_row, [&](int i, int j, auto sum) {
                if (row + i < p.m && column + j < p.n) finish(p, sum, row + i, column + j, offset.c);
            });
        }
    }
};

template <class T>
void launch_tiles(CudaStream& stream, const Problem& p) {
    const std::uint32_t row_tiles = blocks_for(p.m, kTile), column_tiles = blocks_for(p.n, kTile);
    const LaunchShape shape{.x = row_tiles * column_tiles,
                            .y = static_cast<std::uint32_t>(std::min(p.batches(), kMostBatches)),
                            .threads = TileSums<T>::kThreads,
                            .shared_bytes = TileSums<T>::kSharedBytes};
    launch(stream, shape, Tiled<T>{}, p, column_tiles);
}

}  // namespace

void tiled_matmul(CudaStream& stream, const Problem& problem) {
    switch (problem.operand) {
        case Dtype::f64:
            return launch_tiles<double>(stream, problem);
        case Dtype::f16:
            return launch_tiles<f16>(stream, problem);
        case Dtype::bf16:
            return launch_tiles<bf16>(stream, problem);
        default:
            return launch_tiles<float>(stream, problem);
    }
}

}  // namespace headroom::kernels
