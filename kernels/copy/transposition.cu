#include <headroom/kernels/copy/internal/transposition.hpp>

#include <bit>
#include <cstdint>
#include <optional>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr int kLanes = static_cast<int>(kWarp);
constexpr unsigned kThreads = 256;
constexpr int kWarps = static_cast<int>(kThreads / kWarp);
constexpr std::int64_t kNarrowest = 8;  // elements; below that, lines are used badly in either way

/// The axes that tiles lie in, and the others. `along_y`: elements of y are neighbours there; `along_x`: those of x.
struct Transposition {
    std::int64_t along_y, along_x;  // sizes
    std::int64_t x_stride;          // of x along_y
    std::int64_t y_stride;          // of y along_x
    Divisor tiles_y, tiles_x;       // how many tiles along the axes
    StridedAxes<2> rest;            // y, x

    std::int64_t tiles() const { return tiles_y.value() * tiles_x.value() * rest.numel(); }
};

HEADROOM_DEVICE std::int64_t minimum(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Where a block's tile lies.
struct Place {
    std::int64_t first_y, first_x;  // along the axes
    Offsets<2> offsets;             // of the tile's first element in y and x
};

HEADROOM_DEVICE Place place_of(const Transposition& at, std::int64_t tile, int size) {
    const auto outer = at.tiles_y.divide(static_cast<std::uint64_t>(tile));
    const auto plane = at.tiles_x.divide(outer);
    Place place;
    place.first_y = (tile - static_cast<std::int64_t>(outer) * at.tiles_y.value()) * size;
    place.first_x = static_cast<std::int64_t>(outer - plane * static_cast<std::uint64_t>(at.tiles_x.value())) * size;
    place.offsets = at.rest.offsets(static_cast<std::int64_t>(plane));
    place.offsets[0] += place.first_x * at.y_stride + place.first_y;
    place.offsets[1] += place.first_y * at.x_stride + place.first_x;
    return place;
}

/// y = x as bits. A warp reads a line of the source's elements, and after that one of the target's.
template <class Element>
struct CopyTile {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kTile = kLanes;
    // Lanes that read a column meet every bank once: the pitch is an odd number of words (or of double words).
    static constexpr int kPitch = kTile + (sizeof(Element) < 4 ? 4 / static_cast<int>(sizeof(Element)) : 1);
    static constexpr std::size_t kShared = shared_size<Element>(kTile * kPitch);

    HEADROOM_DEVICE void operator()(Block& block, const Element* x, Element* y, const Transposition at) const {
        const Shared<Element> tile = block.shared<Element>(kTile * kPitch);
        const Place place = place_of(at, block.x(), kTile);
        const int lane = static_cast<int>(block.lane()), warp = static_cast<int>(block.warp());
        const auto height = static_cast<int>(minimum(kTile, at.along_y - place.first_y));
        const auto width = static_cast<int>(minimum(kTile, at.along_x - place.first_x));
        Element values[kTile / kWarps];
#pragma unroll
        for (int k = 0; k < kTile / kWarps; ++k) {
            const int row = warp + k * kWarps;
            if (row < height && lane < width) values[k] = x[place.offsets[1] + row * at.x_stride + lane];
        }
#pragma unroll
        for (int k = 0; k < kTile / kWarps; ++k) {
            const int row = warp + k * kWarps;
            if (row < height && lane < width) tile[row * kPitch + lane] = values[k];
        }
        block.sync();
#pragma unroll
        for (int k = 0; k < kTile / kWarps; ++k) {
            const int row = warp + k * kWarps;
            if (row < width && lane < height)
                y[place.offsets[0] + row * at.y_stride + lane] = tile[lane * kPitch + row];
        }
    }
};

/// The same for elements of 2 bytes in pairs, where pairs lie whole and aligned in both arrays: lanes move 4 bytes.
struct CopyPairs {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kTile = 2 * kLanes;
    static constexpr std::size_t kShared = shared_size<std::uint32_t>(kTile * (kLanes + 1) + 1);

    /// Of a pair in shared memory. Lanes that read every second row of a column meet every bank once.
    HEADROOM_DEVICE static int word(int row, int pair) { return row * (kLanes + 1) + row / kLanes + pair; }

    HEADROOM_DEVICE void operator()(Block& block, const std::uint16_t* x, std::uint16_t* y,
                                    const Transposition at) const {
        const Shared<std::uint32_t> tile = block.shared<std::uint32_t>(kTile * (kLanes + 1) + 1);
        const Place place = place_of(at, block.x(), kTile);
        const int lane = static_cast<int>(block.lane()), warp = static_cast<int>(block.warp());
        const auto height = static_cast<int>(minimum(kTile, at.along_y - place.first_y));
        const auto width = static_cast<int>(minimum(kTile, at.along_x - place.first_x));
        std::uint32_t values[kTile / kWarps];
#pragma unroll
        for (int k = 0; k < kTile / kWarps; ++k) {
            const int row = warp + k * kWarps;
            if (row >= height || 2 * lane >= width) continue;
            const Vector<std::uint16_t, 2> pair = block.load<2>(x + place.offsets[1] + row * at.x_stride + 2 * lane);
            values[k] = pair[0] | std::uint32_t{pair[1]} << 16;
        }
#pragma unroll
        for (int k = 0; k < kTile / kWarps; ++k) {
            const int row = warp + k * kWarps;
            if (row < height && 2 * lane < width) tile[word(row, lane)] = values[k];
        }
        block.sync();
#pragma unroll
        for (int k = 0; k < kLanes / kWarps; ++k) {
            const int pair = warp + k * kWarps;
            if (2 * pair >= width || 2 * lane >= height) continue;
            const std::uint32_t first = tile[word(2 * lane, pair)], second = tile[word(2 * lane + 1, pair)];
            std::uint16_t* target = y + place.offsets[0] + 2 * pair * at.y_stride + 2 * lane;
            store_pair(block, target, first & 0xffffu, second & 0xffffu);
            store_pair(block, target + at.y_stride, first >> 16, second >> 16);
        }
    }

    HEADROOM_DEVICE static void store_pair(Block& block, std::uint16_t* p, std::uint32_t a, std::uint32_t b) {
        block.store(p, Vector<std::uint16_t, 2>{{static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b)}});
    }
};

/// y = alpha x + beta y by way of f32.
struct CombineTile {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kTile = kLanes;
    static constexpr int kPitch = kTile + 1;
    static constexpr std::size_t kShared = shared_size<float>(kTile * kPitch);
    Dtype x_dtype;
    Dtype y_dtype;
    float alpha;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, const void* x, void* y, const Transposition at) const {
        const Shared<float> tile = block.shared<float>(kTile * kPitch);
        const Place place = place_of(at, block.x(), kTile);
        const int lane = static_cast<int>(block.lane()), warp = static_cast<int>(block.warp());
        const auto height = static_cast<int>(minimum(kTile, at.along_y - place.first_y));
        const auto width = static_cast<int>(minimum(kTile, at.along_x - place.first_x));
        for (int row = warp; row < height; row += kWarps) {
            if (lane >= width) break;
            tile[row * kPitch + lane] = load_as<float>(x, x_dtype, place.offsets[1] + row * at.x_stride + lane);
        }
        block.sync();
        for (int row = warp; row < width; row += kWarps) {
            if (lane >= height) break;
            const float from = tile[lane * kPitch + row];
            const std::int64_t offset = place.offsets[0] + row * at.y_stride + lane;
            float value = alpha * from;
            if (beta != 0.0f) value = value + beta * load_as<float>(y, y_dtype, offset);
            store_as<float>(y, y_dtype, offset, value);
        }
    }
};

/// The walk's axes but the row and `other`, or one element where there are no others.
StridedAxes<2> other_axes(const Walk& walk, int other) {
    View views[2];
    for (int k = 0; k < 2; ++k) {
        for (int i = walk.axes() - 1; i > 0; --i) {
            if (i == other) continue;
            views[k].shape.push_back(walk.axis_size(i));
            views[k].strides.push_back(walk.axis_stride(k, i));
        }
    }
    return StridedAxes<2>(Walk({&views[0], &views[1]}, Walk::Order::shape), 2);
}

std::optional<Transposition> find_transposition(const View& x, const View& y) {
    const Walk walk({&y, &x});
    if (walk.stride(0) != 1 || walk.stride(1) == 0 || walk.stride(1) == 1) return std::nullopt;
    for (int i = 1; i < walk.axes(); ++i) {
        if (walk.axis_stride(1, i) != 1) continue;
        if (walk.row_size() < kNarrowest || walk.axis_size(i) < kNarrowest) return std::nullopt;
        return Transposition{.along_y = walk.row_size(),
                             .along_x = walk.axis_size(i),
                             .x_stride = walk.stride(1),
                             .y_stride = walk.axis_stride(0, i),
                             .tiles_y = {},
                             .tiles_x = {},
                             .rest = other_axes(walk, i)};
    }
    return std::nullopt;
}

template <class Kernel, class From, class To>
void launch_tiles(CudaStream& stream, const Kernel& kernel, From* x, To* y, Transposition at) {
    at.tiles_y = Divisor((at.along_y + Kernel::kTile - 1) / Kernel::kTile);
    at.tiles_x = Divisor((at.along_x + Kernel::kTile - 1) / Kernel::kTile);
    const LaunchShape shape{.x = blocks_for(at.tiles(), 1), .threads = kThreads, .shared_bytes = Kernel::kShared};
    launch(stream, shape, kernel, static_cast<const From*>(x), y, at);
}

template <class Element>
void copy_tiles(CudaStream& stream, const View& x, const View& y, const Transposition& at) {
    launch_tiles(stream, CopyTile<Element>{}, x.as<Element>(), y.as<Element>(), at);
}

/// Pairs of elements of 2 bytes are never parted.
bool pairs_fit(const View& x, const View& y, const Transposition& at) {
    bool even = at.along_y % 2 == 0 && at.along_x % 2 == 0 && at.x_stride % 2 == 0 && at.y_stride % 2 == 0;
    for (int i = 0; i < at.rest.axes() && at.rest.numel() > 1; ++i) {
        even = even && at.rest.stride(0, i) % 2 == 0 && at.rest.stride(1, i) % 2 == 0;
    }
    return even && std::bit_cast<std::uintptr_t>(x.data) % 4 == 0 && std::bit_cast<std::uintptr_t>(y.data) % 4 == 0;
}

}  // namespace

bool copy_transposed(CudaStream& stream, const View& x, const View& y) {
    const std::optional<Transposition> at = find_transposition(x, y);
    if (!at) return false;
    switch (size_of(x.dtype)) {
        case 1:
            copy_tiles<std::uint8_t>(stream, x, y, *at);
            break;
        case 2:
            if (pairs_fit(x, y, *at)) {
                launch_tiles(stream, CopyPairs{}, x.as<std::uint16_t>(), y.as<std::uint16_t>(), *at);
            } else {
                copy_tiles<std::uint16_t>(stream, x, y, *at);
            }
            break;
        case 4:
            copy_tiles<std::uint32_t>(stream, x, y, *at);
            break;
        default:
            copy_tiles<std::uint64_t>(stream, x, y, *at);
    }
    return true;
}

bool combine_transposed(CudaStream& stream, const View& x, const View& y, float alpha, float beta) {
    if (x.dtype != Dtype::f32 && !is_half(x.dtype)) return false;
    const std::optional<Transposition> at = find_transposition(x, y);
    if (!at) return false;
    launch_tiles(stream, CombineTile{x.dtype, y.dtype, alpha, beta}, x.data, y.data, *at);
    return true;
}

}  // namespace headroom::kernels
