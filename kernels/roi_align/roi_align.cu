// A result is made by one thread, for eight neighbouring channels where arrays allow it. For the gradient, the boxes
// that a block's pixels are in are listed first, a block's threads of them at a time: most are elsewhere.
#include <headroom/kernels/roi_align/roi_align.hpp>

#include <algorithm>

#include <headroom/kernels/device/images.hpp>
#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/device/prefix_sum.cuh>

namespace headroom::kernels {

namespace {

using namespace device;

/// [N, C, H, W], channels in groups of W.
struct Map {
    explicit Map(const View& x) : data(x.data), dtype(x.dtype) {
        for (int i = 0; i < 4; ++i) stride[i] = x.stride(i);
    }
    HEADROOM_DEVICE std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
        return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
    }
    void* data;
    Dtype dtype;
    std::int64_t stride[4];
};

struct Boxes {
    explicit Boxes(const View& boxes)
        : data(boxes.data), dtype(boxes.dtype), row(boxes.stride(0)), column(boxes.stride(1)) {}
    template <class C>
    HEADROOM_DEVICE Region<C> region(std::int64_t r, const RegionMap& map) const {
        C numbers[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) numbers[i] = load_as<C>(data, dtype, r * row + i * column);
        return {numbers, map};
    }
    const void* data;
    Dtype dtype;
    std::int64_t row, column;
};

template <class C, int W>
HEADROOM_DEVICE void add_weighted(Block& block, const Map& x, std::int64_t offset, C weight, Items<C, W>& sum) {
    const Items<C, W> values = load_channels<C, W>(block, x.data, x.dtype, offset);
#pragma unroll
    for (int k = 0; k < W; ++k) sum[k] += weight * values[k];
}

template <class C, int W>
struct MeansOfBins {
    static constexpr unsigned kMaxThreads = kImageThreads;

    RegionMap map;
    Divisor groups, columns, rows;  // of y

    HEADROOM_DEVICE void operator()(Block& block, std::int64_t n, const Map x, const Boxes boxes,
                                    const IndexCheck check, const Map y) const {
        for (std::int64_t item = block.global_thread(); item < n; item += block.global_threads()) {
            const auto whole = static_cast<std::uint64_t>(item);
            const std::uint64_t bin = groups.divide(whole), line = columns.divide(bin), box = rows.divide(line);
            const std::int64_t c = (item - static_cast<std::int64_t>(bin) * groups.value()) * W;
            const auto r = static_cast<std::int64_t>(box);
            const std::int64_t i = static_cast<std::int64_t>(line) - r * rows.value();
            const std::int64_t j = static_cast<std::int64_t>(bin - line * static_cast<std::uint64_t>(columns.value()));
            const Region<C> region = boxes.template region<C>(r, map);
            Items<C, W> sum{};
            if (region.image >= 0) add(block, x, region, check(block, region.image, r), c, i, j, sum);
            store_channels<C, W>(block, y.data, y.dtype, y.offset(r, c, i, j), 0.0f, sum);
        }
    }

    HEADROOM_DEVICE void add(Block& block, const Map& x, const Region<C>& region, std::int64_t image, std::int64_t c,
                             std::int64_t i, std::int64_t j, Items<C, W>& sum) const {
        const auto over_rows = region.rows.samples_of(i), over_columns = region.columns.samples_of(j);
        for (std::int64_t s = over_rows.begin; s < over_rows.end; ++s) {
            const auto row = region.rows.sample(i, s);
            for (std::int64_t t = over_columns.begin; t < over_columns.end; ++t) {
                const auto column = region.columns.sample(j, t);
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const C weight = row.weight[k / 2] * column.weight[k % 2];
                    if (weight == 0) continue;
                    add_weighted<C, W>(block, x, x.offset(image, c, row.pixel[k / 2], column.pixel[k % 2]), weight,
                                       sum);
                }
            }
        }
    }
};

template <class C, int W>
struct SumsOfBins {
    static constexpr unsigned kMaxThreads = kImageThreads;

    RegionMap map;
    float beta;
    std::int64_t groups;        // of channels
    std::int64_t lines, tiles;  // rows of pixels in all images, and parts of a row

    HEADROOM_DEVICE void operator()(Block& block, const Map dy, std::int64_t regions, const Boxes boxes,
                                    const Map dx) const {
        const Shared<std::uint32_t> list = block.shared<std::uint32_t>(block.threads());
        const Shared<std::uint32_t> sums = block.shared<std::uint32_t>(block.warps());
        const std::int64_t height = map.pixels[0], items = map.pixels[1] * groups;
        for (std::int64_t part = block.x(); part < lines * tiles; part += block.grid_x()) {
            const std::int64_t line = part / tiles, first = part % tiles * block.threads();
            const std::int64_t item = first + block.thread(), after = first + block.threads();
            const std::int64_t n = line / height, h = line % height, w = item / groups, c = item % groups * W;
            const std::int64_t last = (after < items ? after : items) - 1;
            Items<C, W> sum{};
            for (std::int64_t begin = 0; begin < regions; begin += block.threads()) {
                const std::int64_t r = begin + block.thread();
                const bool near =
                    r < regions && is_near(boxes.template region<C>(r, map), n, h, first / groups, last / groups);
                std::uint32_t count = 0;
                const std::uint32_t before = sum_before(block, near ? 1u : 0u, sums, count);
                if (near) list[before] = block.thread();
                block.sync();
                for (std::uint32_t k = 0; k < count && item < items; ++k)
                    add(block, dy, begin + list[k], boxes, h, w, c, sum);
                block.sync();
            }
            if (item < items) store_channels<C, W>(block, dx.data, dx.dtype, dx.offset(n, c, h, w), beta, sum);
        }
    }

    /// It may take from pixels [first, last] of a row.
    HEADROOM_DEVICE bool is_near(const Region<C>& region, std::int64_t n, std::int64_t h, std::int64_t first,
                                 std::int64_t last) const {
        const auto rows = region.rows.taken(), columns = region.columns.taken();
        return region.image == n && rows.begin <= h && h < rows.end && columns.begin <= last && first < columns.end;
    }

    HEADROOM_DEVICE void add(Block& block, const Map& dy, std::int64_t r, const Boxes& boxes, std::int64_t h,
                             std::int64_t w, std::int64_t c, Items<C, W>& sum) const {
        const Region<C> region = boxes.template region<C>(r, map);
        const auto rows = region.rows.bins_at(h), columns = region.columns.bins_at(w);
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
            const C row_weight = region.rows.weight(i, h);
            if (row_weight == 0) continue;
            for (std::int64_t j = columns.begin; j < columns.end; ++j) {
                const C weight = row_weight * region.columns.weight(j, w);
                if (weight != 0) add_weighted<C, W>(block, dy, dy.offset(r, c, i, j), weight, sum);
            }
        }
    }
};

/// Starts `start<C, W>()`, with W = 8 where both arrays allow it.
template <class Start>
void in_groups(bool wide, const View& x, const View& y, Start&& start) {
    if (wide) return start.template operator()<double, 1>();
    takes_eight_channels(x) && takes_eight_channels(y) ? start.template operator()<float, 8>()
                                                       : start.template operator()<float, 1>();
}

}  // namespace

void roi_align(CudaStream& stream, const View& x, const View& boxes, const RoiAlignOptions& options, const View& y) {
    if (y.numel() == 0) return;
    const RegionMap map{options, {y.size(2), y.size(3)}, {x.size(2), x.size(3)}};
    in_groups(x.dtype == Dtype::f64 || y.dtype == Dtype::f64, x, y, [&]<class C, int W>() {
        const std::int64_t n = y.numel() / W;
        launch(stream, {.x = grid_for(stream, n, kImageThreads), .loops = true, .threads = kImageThreads},
               MeansOfBins<C, W>{map, Divisor(y.size(1) / W), Divisor(y.size(3)), Divisor(y.size(2))}, n, Map(x),
               Boxes(boxes), index_check(stream, "roi_align: index of the image", x.size(0)), Map(y));
    });
}

void RoiAlignGradientPlan::run(CudaStream& stream, std::byte*) const {
    if (dx_.numel() == 0) return;
    in_groups(wide(), dy_, dx_, [&]<class C, int W>() {
        const std::int64_t groups = dx_.size(1) / W, lines = dx_.size(0) * dx_.size(2);
        const std::int64_t tiles = (dx_.size(3) * groups + kImageThreads - 1) / kImageThreads;
        const std::size_t shared =
            shared_size<std::uint32_t>(kImageThreads) + shared_size<std::uint32_t>(kImageThreads / kWarp);
        launch(
            stream,
            {.x = grid_for(stream, lines * tiles, 1), .loops = true, .threads = kImageThreads, .shared_bytes = shared},
            SumsOfBins<C, W>{map_, beta_, groups, lines, tiles}, Map(dy_), dy_.size(0), Boxes(boxes_), Map(dx_));
    });
}

}  // namespace headroom::kernels
