#include <headroom/kernels/channel_norm/channel_norm.hpp>

#include <headroom/kernels/channel_norm/internal/item_norm.hpp>
#include <headroom/kernels/channel_norm/internal/moments.hpp>
#include <headroom/kernels/internal/mean_rounding.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

namespace {

/// Adds to the mean of items [first, last) what it is off by, and sums their squared deviations anew.
template <class T>
[[gnu::noinline]] void correct(const TileBlock<1>& block, const TileLines<const T>& x, std::int64_t first,
                               std::int64_t last, T& mean, T& squares) {
    const auto add_up = [&](auto&& term) {
        T all = 0;
        for (std::int64_t r = 0; r < block.lines; ++r)
            for (std::int64_t i = first; i < last; ++i) all += term(x.line(r)[i] - mean);
        return all;
    };
    mean += add_up([](T off) { return off; }) / static_cast<T>(block.lines * (last - first));
    squares = add_up([](T off) { return off * off; });
}

/// Joins a block's moments with those of the blocks before: for each column of a tile, or for its only one.
template <class T>
void join_block(const TileBlock<1>& block, bool across, Moments<double>* all) {
    T buffer[kBlockElements], sums[kTileItems], means[kTileItems];
    const TileLines<const T> x = block.read(0, buffer);
    add_lines(block.lines, block.items, sums,
              [&](std::int64_t r) { return [values = x.line(r)](std::int64_t i) { return values[i]; }; });
    const std::int64_t count = across ? block.lines : block.lines * block.items;
    if (across) {
        for (std::int64_t i = 0; i < block.items; ++i) means[i] = sums[i] / static_cast<T>(count);
    } else {
        std::fill_n(means, block.items, combine_run<Sum>(sums, block.items) / static_cast<T>(count));
    }
    add_lines(block.lines, block.items, sums, [&](std::int64_t r) {
        return [values = x.line(r), &means](std::int64_t i) { return (values[i] - means[i]) * (values[i] - means[i]); };
    });
    if (!across) sums[0] = combine_run<Sum>(sums, block.items);
    const std::int64_t columns = across ? block.items : 1;
    const bool exact = across && (count == 1 || count == 2 || count == 4);  // of equal numbers
    int corrections = 0;
#pragma omp simd reduction(+ : corrections)
    for (std::int64_t i = 0; i < (exact ? 0 : columns); ++i)
        corrections += is_rounding(sums[i], static_cast<T>(count), means[i]) ? 1 : 0;
    for (std::int64_t i = 0; i < columns && corrections > 0; ++i)
        correct(block, x, across ? i : 0, across ? i + 1 : block.items, means[i], sums[i]);
    for (std::int64_t i = 0; i < columns; ++i)
        all[i].join({static_cast<double>(count), static_cast<double>(means[i]), static_cast<double>(sums[i])});
}

}  // namespace

ChannelMomentsPlan::ChannelMomentsPlan(const Stream& stream, const View& x, const View& mean, const View& variance)
    : x_(x), mean_(mean), variance_(variance), parts_(stream, x, Columns(x, mean)) {}

std::size_t ChannelMomentsPlan::scratch() const { return parts_.scratch(3); }

void ChannelMomentsPlan::run(CpuStream& stream, std::byte* scratch) const {
    const Columns& columns = parts_.columns;
    if (x_.numel() == 0) return;
    const Tiles<1> tiles(columns, {&x_});
    auto* all = reinterpret_cast<Moments<double>*>(scratch);
    dispatch_compute(x_.dtype, [&]<class T>(TypeTag<T>) {
        for_each_part(stream, tiles, parts_.parts, 2 * x_.numel(),
                      [&](std::int64_t tile, std::int64_t part, auto&& for_each_block) {
                          Moments<double>* own = all + part * columns.count() + tiles.first_column(tile);
                          std::fill_n(own, tiles.width(tile), Moments<double>{});
                          for_each_block([&](const TileBlock<1>& block) { join_block<T>(block, tiles.across(), own); });
                      });
        parallel_for(stream, columns.sets(), 16 * parts_.parts * columns.count(), [&](std::int64_t set) {
            Moments<double> joint;
            for (std::int64_t i = 0; i < columns.group; ++i) {
                for (std::int64_t part = 0; part < parts_.parts; ++part)
                    joint.join(all[part * columns.count() + set * columns.group + i]);
            }
            mean_.as<T>()[set] = static_cast<T>(joint.mean);
            variance_.as<T>()[set] = static_cast<T>(joint.squares / joint.count);
        });
    });
}

void channel_norm(CpuStream& stream, const View& x, const ChannelNorm& norm, const View* residual, const View& y) {
    if (x.numel() == 0) return;
    const Columns columns(x, norm.mean);
    const Tiles<3> tiles(columns, {&x, &y, residual ? residual : &x});
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        for_each_part(stream, tiles, shares_of(tiles, x.numel()), 2 * x.numel(),
                      [&](std::int64_t tile, std::int64_t, auto&& for_each_block) {
                          const ItemNorm<T> of(norm, columns, tiles, tile);
                          for_each_block([&](const TileBlock<3>& block) {
                              T in_buffer[kBlockElements], out_buffer[kBlockElements], residual_buffer[kBlockElements];
                              const TileLines<const T> in = block.read(0, in_buffer);
                              const TileLines<const T> other =
                                  residual ? block.read(2, residual_buffer) : TileLines<const T>{};
                              const TileLines<T> out = block.target(1, 0, out_buffer);
                              for (std::int64_t r = 0; r < block.lines; ++r) {
                                  const T *values = in.line(r), *added = residual ? other.line(r) : nullptr;
                                  T* result = out.line(r);
                                  if (residual) {
#pragma omp simd
                                      for (std::int64_t i = 0; i < block.items; ++i)
                                          result[i] = (values[i] - of.mean[i]) * of.scale[i] + of.bias[i] + added[i];
                                  } else {
#pragma omp simd
                                      for (std::int64_t i = 0; i < block.items; ++i)
                                          result[i] = (values[i] - of.mean[i]) * of.scale[i] + of.bias[i];
                                  }
                                  if (!norm.relu) continue;
#pragma omp simd
                                  for (std::int64_t i = 0; i < block.items; ++i)
                                      result[i] = result[i] < 0 ? T{0} : result[i];
                              }
                              block.write(1, 0, out);
                          });
                      });
    });
}

}  // namespace headroom::kernels
