#include <headroom/kernels/channel_norm/internal/columns.hpp>

#include <headroom/kernels/channel_norm/internal/tiles.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kMostTasks = 64;         // of the CPU, but for tiles
constexpr std::int64_t kElementsOfPart = 8192;  // at least, on the CPU
constexpr std::int64_t kMostBlocks = 528;       // four for each of 132 multiprocessors, but for tiles
constexpr std::int64_t kElementsOfThread = 8;   // at least, on a GPU

ColumnTile tile_of(const View& x, const Columns& columns) {
    ColumnTile tile;
    if (!channels_are_innermost(x, columns)) return tile;
    tile.width = x.dtype != Dtype::f64 && columns.channels % 8 == 0 ? 8 : 1;
    while (tile.across < 32 && 2 * tile.columns() <= columns.count()) tile.across *= 2;
    return tile;
}

}  // namespace

ColumnParts::ColumnParts(const Stream& stream, const View& x, const Columns& of) : columns(of) {
    if (on_cuda(stream)) {
        tile = tile_of(x, columns);
        number_bytes = size_of(x.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
        const std::int64_t tiles = std::max<std::int64_t>(1, tile.tiles(columns.count()));
        const std::int64_t most = columns.elements / (std::int64_t{tile.deep()} * kElementsOfThread);
        parts = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, kMostBlocks / tiles));
        return;
    }
    const Tiles<1> tiles(columns, {&x});
    const std::int64_t most = columns.elements * columns.count() / kElementsOfPart;
    const std::int64_t wanted = (kMostTasks - 1) / std::max<std::int64_t>(1, tiles.count()) + 1;
    parts = std::clamp<std::int64_t>(std::min(most, wanted), 1, std::max<std::int64_t>(1, tiles.lines()));
}

}  // namespace headroom::kernels
