#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/channel_norm/internal/item_norm.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

namespace {

/// With relu dy where the result is above 0, in `buffer`; else dy itself.
template <class T, int K>
TileLines<const T> masked(const TileBlock<K>& block, const ChannelNormInputs& in, bool relu,
                          const TileLines<const T>& x, const ItemNorm<T>& norm, T* buffer) {
    const TileLines<const T> dy = block.read(1, buffer);
    if (!relu) return dy;
    T results[kBlockElements];
    const TileLines<const T> y = in.y ? block.read(2, results) : TileLines<const T>{};
    for (std::int64_t r = 0; r < block.lines; ++r) {
        const T *d = dy.line(r), *values = in.y ? y.line(r) : x.line(r);
        T* g = buffer + r * block.items;
        if (in.y) {
#pragma omp simd
            for (std::int64_t i = 0; i < block.items; ++i) g[i] = values[i] > 0 ? d[i] : T{0};
        } else {
#pragma omp simd
            for (std::int64_t i = 0; i < block.items; ++i) {
                const T result = (values[i] - norm.mean[i]) * norm.scale[i] + norm.bias[i];
                g[i] = result > 0 ? d[i] : T{0};
            }
        }
    }
    return {buffer, block.items};
}

/// Of g and of g * h: over a part of a column, or divided by their number over what shares statistics.
struct GradientSums {
    double bias = 0, weight = 0;

    void add(const GradientSums& other, double factor = 1) {
        bias += factor * other.bias;
        weight += factor * other.weight;
    }
};

template <class T>
class Gradient {
  public:
    Gradient(const ChannelNormInputs& in, const ChannelNorm& norm, const ChannelNormGradients& to,
             const ColumnParts& parts, std::byte* scratch)
        : in_(in),
          norm_(norm),
          to_(to),
          columns_(parts.columns),
          parts_(in.dy.numel() == 0 ? 0 : parts.parts),
          x_(in.x ? *in.x : in.dy),
          y_(in.y ? *in.y : in.dy),
          sums_(reinterpret_cast<GradientSums*>(scratch)),
          means_(reinterpret_cast<GradientSums*>(scratch + parts.scratch(2))) {}

    void add_up(CpuStream& stream) const {
        const Tiles<3> tiles(columns_, {&x_, &in_.dy, &y_});
        for_each_part(
            stream, tiles, parts_, 4 * in_.dy.numel(),
            [&](std::int64_t tile, std::int64_t part, auto&& for_each_block) {
                const ItemNorm<T> norm(norm_, columns_, tiles, tile);
                GradientSums* own = sums_ + part * columns_.count() + tiles.first_column(tile);
                std::fill_n(own, tiles.width(tile), GradientSums{});
                for_each_block([&](const TileBlock<3>& block) { add_block(block, norm, tiles.across(), own); });
            });
    }

    void write_parameters() const {
        for (std::int64_t channel = 0; channel < columns_.channels; ++channel) {
            GradientSums all;
            for (std::int64_t image = 0; image < columns_.images; ++image)
                all.add(of_column(image * columns_.channels + channel));
            put(to_.weight, channel, all.weight);
            put(to_.bias, channel, all.bias);
        }
    }

    void find_means() const {
        const double n = static_cast<double>(columns_.elements * columns_.group);
        for (std::int64_t set = 0; set < columns_.sets(); ++set) {
            means_[set] = {};
            for (std::int64_t column = set * columns_.group; column < (set + 1) * columns_.group; ++column) {
                double weight;
                load_channels(norm_.weight, 1.0, columns_, column, 1, &weight);
                means_[set].add(of_column(column), weight / n);
            }
        }
    }

    void write_inputs(CpuStream& stream) const {
        const View& first = *(to_.x ? to_.x : to_.residual).view;
        const Tiles<5> tiles(columns_, {&x_, &in_.dy, &y_, &first, to_.residual ? to_.residual.view : &first});
        for_each_part(stream, tiles, shares_of(tiles, in_.dy.numel()), 4 * in_.dy.numel(),
                      [&](std::int64_t tile, std::int64_t, auto&& for_each_block) {
                          const ItemNorm<T> norm(norm_, columns_, tiles, tile);
                          const ItemMeans means(*this, norm, tiles, tile);
                          for_each_block([&](const TileBlock<5>& block) { write_block(block, norm, means); });
                      });
    }

  private:
    /// dx = g * scale - shift - (x - mean) * slope.
    struct ItemMeans {
        ItemMeans(const Gradient& of, const ItemNorm<T>& norm, const Tiles<5>& tiles, std::int64_t tile) {
            const std::int64_t column = tiles.first_column(tile);
            for (std::int64_t i = 0; i < tiles.items(tile) && !of.in_.constant; ++i) {
                const GradientSums& mean = of.means_[(column + (tiles.across() ? i : 0)) / of.columns_.group];
                shift[i] = static_cast<T>(mean.bias) * norm.rstd[i];
                slope[i] = static_cast<T>(mean.weight) * norm.rstd[i] * norm.rstd[i];
            }
        }
        T shift[kTileItems], slope[kTileItems];
    };

    template <int K>
    TileLines<const T> read_x(const TileBlock<K>& block, T* buffer) const {
        return in_.x ? block.read(0, buffer) : TileLines<const T>{};
    }

    void add_block(const TileBlock<3>& block, const ItemNorm<T>& norm, bool across, GradientSums* own) const {
        T x_buffer[kBlockElements], g_buffer[kBlockElements], sums[kTileItems], products[kTileItems];
        const TileLines<const T> x = read_x(block, x_buffer);
        const TileLines<const T> g = masked(block, in_, norm_.relu, x, norm, g_buffer);
        add_lines(block.lines, block.items, sums,
                  [&](std::int64_t r) { return [d = g.line(r)](std::int64_t i) { return d[i]; }; });
        std::fill_n(products, block.items, T{0});
        if (in_.x) {
            add_lines(block.lines, block.items, products, [&](std::int64_t r) {
                return [d = g.line(r), values = x.line(r), &norm](std::int64_t i) {
                    return d[i] * (values[i] - norm.mean[i]);
                };
            });
        }
        if (!across) {
            *sums = combine_run<Sum>(sums, block.items);
            *products = combine_run<Sum>(products, block.items);
        }
        for (std::int64_t i = 0; i < (across ? block.items : 1); ++i)
            own[i].add({static_cast<double>(sums[i]), static_cast<double>(products[i] * norm.rstd[i])});
    }

    GradientSums of_column(std::int64_t column) const {
        GradientSums all;
        for (std::int64_t part = 0; part < parts_; ++part) all.add(sums_[part * columns_.count() + column]);
        return all;
    }

    static void put(const GradientTarget& to, std::int64_t channel, double value) {
        if (!to) return;
        std::byte* at = to.view->at(channel * to.view->stride(0));
        if (to.beta != 0) value += static_cast<double>(to.beta) * load_one<double>(at, to.view->dtype);
        store_one(value, at, to.view->dtype);
    }

    void write_block(const TileBlock<5>& block, const ItemNorm<T>& norm, const ItemMeans& means) const {
        T x_buffer[kBlockElements], g_buffer[kBlockElements], buffer[kBlockElements];
        const TileLines<const T> x = read_x(block, x_buffer);
        const TileLines<const T> g = masked(block, in_, norm_.relu, x, norm, g_buffer);
        if (to_.residual) {  // first, since dx may be dy's memory
            const TileLines<T> out = block.target(4, to_.residual.beta, buffer);
            for (std::int64_t r = 0; r < block.lines; ++r)
                if (out.line(r) != g.line(r)) std::copy_n(g.line(r), block.items, out.line(r));
            block.write(4, to_.residual.beta, out);
        }
        if (!to_.x) return;
        const TileLines<T> out = block.target(3, to_.x.beta, buffer);
        for (std::int64_t r = 0; r < block.lines; ++r) {
            const T *d = g.line(r), *values = in_.x ? x.line(r) : nullptr;
            T* result = out.line(r);
            if (in_.constant) {
#pragma omp simd
                for (std::int64_t i = 0; i < block.items; ++i) result[i] = d[i] * norm.scale[i];
            } else {
#pragma omp simd
                for (std::int64_t i = 0; i < block.items; ++i)
                    result[i] = d[i] * norm.scale[i] - means.shift[i] - (values[i] - norm.mean[i]) * means.slope[i];
            }
        }
        block.write(3, to_.x.beta, out);
    }

    const ChannelNormInputs& in_;
    const ChannelNorm& norm_;
    const ChannelNormGradients& to_;
    const Columns& columns_;
    std::int64_t parts_;
    const View &x_, &y_;
    GradientSums *sums_, *means_;
};

}  // namespace

ChannelNormGradientPlan::ChannelNormGradientPlan(const Stream& stream, const ChannelNormInputs& in,
                                                 const ChannelNorm& norm, const ChannelNormGradients& to)
    : in_(in), norm_(norm), to_(to), parts_(stream, in.x ? *in.x : in.dy, Columns(in.dy, norm.mean)) {}

std::size_t ChannelNormGradientPlan::scratch() const {
    if (!wants_sums()) return 0;
    return parts_.scratch(2) + 2 * static_cast<std::size_t>(parts_.columns.sets()) * parts_.number_bytes;
}

void ChannelNormGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    dispatch_compute((in_.x ? *in_.x : in_.dy).dtype, [&]<class T>(TypeTag<T>) {
        const Gradient<T> gradient(in_, norm_, to_, parts_, scratch);
        const bool empty = in_.dy.numel() == 0;
        if (wants_sums() && !empty) gradient.add_up(stream);
        if (to_.weight || to_.bias) gradient.write_parameters();
        if (empty || (!to_.x && !to_.residual)) return;
        if (!in_.constant) gradient.find_means();
        gradient.write_inputs(stream);
    });
}

}  // namespace headroom::kernels
