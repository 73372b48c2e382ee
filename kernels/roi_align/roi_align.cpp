#include <headroom/kernels/roi_align/roi_align.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/pixels.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

template <class T>
Region<T> region_of(const Rows& boxes, std::int64_t r, const RegionMap& map) {
    T numbers[5];
    return {boxes.read(r, 0, 5, numbers), map};
}

template <class T>
void roi_align_as(CpuStream& stream, const View& x, const View& boxes, const RegionMap& map, const View& y) {
    const Rows in(pixels_of(x)), out(pixels_of(y)), list(boxes);
    const auto [height, width] = map.bins;
    for (std::int64_t r = 0; r < y.size(0); ++r) {
        const std::int64_t image = region_of<T>(list, r, map).image;
        if (image < x.size(0)) continue;
        throw ShapeError(
            fmt::format("roi_align: index of the image {} at position {} is outside of [0, {})", image, r, x.size(0)));
    }
    parallel_for(stream, y.size(0) * height, 16 * y.numel(), [&](std::int64_t line) {
        const std::int64_t i = line % height;
        const Region<T> region = region_of<T>(list, line / height, map);
        const auto rows = region.image < 0 ? typename RegionAxis<T>::Span{0, 0} : region.rows.samples_of(i);
        Taps<T> taps;
        T target[kChunk];
        for (std::int64_t j = 0; j < width; ++j) {
            const auto columns = region.columns.samples_of(j);
            for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                T* const sums = out.target(line * width + j, begin, count, target);
                bool first = true;
                const auto take = [&](std::int64_t row, std::int64_t column, T weight) {
                    if (weight == 0) return;
                    if (taps.count == kTaps) add_taps(taps, std::exchange(first, false), count, sums);
                    const std::int64_t pixel = (region.image * x.size(2) + row) * x.size(3) + column;
                    taps.add(in, pixel, begin, count, weight);
                };
                for (std::int64_t s = rows.begin; s < rows.end; ++s) {
                    const auto row = region.rows.sample(i, s);
                    for (std::int64_t t = columns.begin; t < columns.end; ++t) {
                        const auto column = region.columns.sample(j, t);
                        for (int k = 0; k < 4; ++k) {
                            take(row.pixel[k / 2], column.pixel[k % 2], row.weight[k / 2] * column.weight[k % 2]);
                        }
                    }
                }
                add_taps(taps, first, count, sums);
                out.write(sums, line * width + j, begin, count);
            });
        }
    });
}

RegionMap map_of(const View& bins, const View& pixels, const RoiAlignOptions& options) {
    return {options, {bins.size(2), bins.size(3)}, {pixels.size(2), pixels.size(3)}};
}

}  // namespace

void roi_align(CpuStream& stream, const View& x, const View& boxes, const RoiAlignOptions& options, const View& y) {
    if (y.numel() == 0) return;
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    dispatch_compute(wide ? Dtype::f64 : Dtype::f32,
                     [&]<class T>(TypeTag<T>) { roi_align_as<T>(stream, x, boxes, map_of(y, x, options), y); });
}

RoiAlignGradientPlan::RoiAlignGradientPlan(const Stream& stream, const View& dy, const View& boxes,
                                           const RoiAlignOptions& options, float beta, const View& dx)
    : dy_(dy), boxes_(boxes), dx_(dx), map_(map_of(dy, dx, options)), beta_(beta) {
    if (on_cuda(stream) || dx.numel() == 0) return;
    workers_ = std::min<std::int64_t>(threads_of(stream), dx.size(0) * dx.size(2));
    scratch_ = static_cast<std::size_t>(workers_) * row_bytes();
}

/// Of the sums of a row, and what keeps the next thread's away from them.
std::size_t RoiAlignGradientPlan::row_bytes() const {
    const auto elements = static_cast<std::size_t>(dx_.size(1) * dx_.size(3));
    return elements * (wide() ? sizeof(double) : sizeof(float)) + kScratchGap;
}

template <class T>
void RoiAlignGradientPlan::run_as(CpuStream& stream, std::byte* scratch) const {
    const Rows in(pixels_of(dy_)), out(pixels_of(dx_)), list(boxes_);
    const std::int64_t channels = dx_.size(1), height = dx_.size(2), width = dx_.size(3), lines = dx_.size(0) * height;
    const auto [bin_rows, bin_columns] = map_.bins;
    /// sums += what bins of row i of region r have for a row of pixels, times `weight`.
    const auto add_bins = [&](const RegionAxis<T>& columns, std::int64_t bins, T weight, T* sums) {
        Taps<T> taps;
        for (auto [w, end] = columns.taken(); w < end; ++w) {
            for_each_chunk(channels, [&](std::int64_t begin, std::int64_t count) {
                T* const target = sums + w * channels + begin;
                for (auto [j, last] = columns.bins_at(w); j < last; ++j) {
                    const T here = weight * columns.weight(j, w);
                    if (here == 0) continue;
                    if (taps.count == kTaps) add_taps(taps, false, count, target);
                    taps.add(in, bins + j, begin, count, here);
                }
                add_taps(taps, false, count, target);
            });
        }
    };
    parallel_for(stream, workers_, dx_.numel() + 16 * dy_.numel(), [&](std::int64_t worker) {
        T* const sums = reinterpret_cast<T*>(scratch + static_cast<std::size_t>(worker) * row_bytes());
        for (std::int64_t line = lines * worker / workers_; line < lines * (worker + 1) / workers_; ++line) {
            std::fill_n(sums, width * channels, T{0});
            for (std::int64_t r = 0; r < dy_.size(0); ++r) {
                const Region<T> region = region_of<T>(list, r, map_);
                if (region.image != line / height) continue;
                for (auto [i, end] = region.rows.bins_at(line % height); i < end; ++i) {
                    const T weight = region.rows.weight(i, line % height);
                    if (weight != 0) add_bins(region.columns, (r * bin_rows + i) * bin_columns, weight, sums);
                }
            }
            for (std::int64_t w = 0; w < width; ++w) {
                for_each_chunk(channels, [&](std::int64_t begin, std::int64_t count) {
                    out.write(sums + w * channels + begin, line * width + w, begin, count, beta_);
                });
            }
        }
    });
}

void RoiAlignGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    if (dx_.numel() == 0) return;
    wide() ? run_as<double>(stream, scratch) : run_as<float>(stream, scratch);
}

}  // namespace headroom::kernels
