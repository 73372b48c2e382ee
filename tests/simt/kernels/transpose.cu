#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt::test_kernels {
namespace {

using namespace headroom::kernels::device;

constexpr int kTile = 32, kRowsAtOnce = 4;

struct Transpose {
    static constexpr unsigned kMaxThreads = kTile * kRowsAtOnce;

    HEADROOM_DEVICE void operator()(Block& block, const float* x, float* y, std::int64_t rows,
                                    std::int64_t columns) const {
        const Shared<float> tile = block.shared<float>(kTile * (kTile + 1));  // the padding spreads columns over banks
        const int lane = block.lane(), warp = block.warp();
        const std::int64_t column = std::int64_t{block.x()} * kTile, row = std::int64_t{block.y()} * kTile;
        for (int i = warp; i < kTile; i += kRowsAtOnce)
            if (row + i < rows && column + lane < columns)
                tile[i * (kTile + 1) + lane] = x[(row + i) * columns + column + lane];
        block.sync();
        for (int i = warp; i < kTile; i += kRowsAtOnce)
            if (column + i < columns && row + lane < rows)
                y[(column + i) * rows + row + lane] = tile[lane * (kTile + 1) + i];
    }
};

}  // namespace

void transpose(kernels::device::Stream stream, const float* x, float* y, std::int64_t rows, std::int64_t columns) {
    const LaunchShape shape{.x = blocks_for(columns, kTile),
                            .y = blocks_for(rows, kTile),
                            .threads = Transpose::kMaxThreads,
                            .shared_bytes = shared_size<float>(kTile * (kTile + 1))};
    launch(stream, shape, Transpose{}, x, y, rows, columns);
}

}  // namespace headroom::simt::test_kernels
