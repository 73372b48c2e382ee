// The gradient of weights: for each tap, a product over pixels of y's channels and x's. Both are read where they lie,
// where they have the type that is computed in. Threads share out the weights, not the pixels: so nobody's sums are
// added to another's, and bits do not depend on their number.
#include <algorithm>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/convolution/internal/blocked.hpp>
#include <headroom/kernels/matmul/internal/pack.hpp>
#include <headroom/kernels/matmul/internal/tile.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kPixels = 1024;  // at a time: a panel of x then stays in the second-level cache
constexpr std::int64_t kTileRows = 12;  // of y's channels that registers hold at once

/// Positions of a kernel whose tap meets x, of those in [begin, end).
struct Range {
    Range(const ConvolutionAxis& axis, std::int64_t tap, std::int64_t begin, std::int64_t end) {
        const std::int64_t before = axis.padding - tap * axis.dilation, last = axis.input - 1 + before;
        first = std::max(begin, before <= 0 ? 0 : quotient_up(before, axis.stride));
        size = last < 0 ? 0 : std::max<std::int64_t>(0, std::min(end, last / axis.stride + 1) - first);
    }
    std::int64_t first, size;
};

/// Images, or rows of one image, that are worked on at a time.
struct Part {
    std::int64_t image, images, row, rows;
};

/// The channels of all groups side by side, pixel by pixel.
template <class T>
struct Pixels {
    const T* data;
    std::int64_t image, row, pixel, group, channel;  // strides
    std::int64_t first_row;                          // where data begins, of an image's rows
};

template <class T>
class WeightGradient {
  public:
    explicit WeightGradient(const ConvolutionProblem& problem) : p(problem) {
        const bool vectors = p.inputs % kLanes<T> == 0;
        packs_x_ = p.operand != dtype_of<T> || p.x.stride[1] != 1 || !vectors;
        packs_y_ = p.operand != dtype_of<T>;
        in_place_ = p.weight.dtype == dtype_of<T> && p.weight.stride[1] == 1 && vectors;
        rows_ = std::clamp<std::int64_t>(kPixels / p.w.output, 1, p.h.output);
        images_ = rows_ < p.h.output ? 1
                                     : std::clamp<std::int64_t>(kPixels / (p.h.output * p.w.output), 1,
                                                                std::max<std::int64_t>(1, p.images));
    }

    std::size_t scratch() const { return sums_bytes() + x_bytes() + y_bytes(); }

    void run(const CpuStream& stream, std::byte* scratch) const {
        T* const sums = in_place_ ? reinterpret_cast<T*>(p.weight.data) : reinterpret_cast<T*>(scratch);
        T* const x = reinterpret_cast<T*>(scratch + sums_bytes());
        T* const y = reinterpret_cast<T*>(scratch + sums_bytes() + x_bytes());
        for_each_tile(stream, 0, [&](const Tile& tile) { begin(tile, sums); });
        for (std::int64_t image = 0; image < p.images; image += images_) {
            for (std::int64_t row = 0; row < p.h.output; row += rows_) {
                const Part part{image, std::min(images_, p.images - image), row, std::min(rows_, p.h.output - row)};
                const Pixels<T> from = x_pixels(stream, part, x), with = y_pixels(stream, part, y);
                for_each_tile(stream, part.images * part.rows * p.w.output,
                              [&](const Tile& tile) { add(tile, part, from, with, sums); });
            }
        }
        if (!in_place_) for_each_tile(stream, 0, [&](const Tile& tile) { finish(tile, sums); });
    }

  private:
    /// Weights of one tap: `outputs` rows, a panel of inputs.
    struct Tile {
        std::int64_t group, tap, input, inputs, output, outputs;
    };

    std::int64_t padded_inputs() const { return padded<T>(p.inputs); }
    std::int64_t x_rows() const { return std::min(p.h.input, (rows_ - 1) * p.h.stride + p.h.covered()); }
    std::int64_t x_row_size() const { return p.groups * p.w.input * padded_inputs(); }
    std::int64_t y_row_size() const { return p.groups * p.outputs * p.w.output; }
    std::size_t sums_bytes() const {
        const std::int64_t elements = p.groups * p.outputs * p.h.kernel * p.w.kernel * padded_inputs();
        return in_place_ ? 0 : aligned(static_cast<std::size_t>(elements) * sizeof(T));
    }
    std::size_t x_bytes() const {
        return packs_x_ ? aligned(static_cast<std::size_t>(images_ * x_rows() * x_row_size()) * sizeof(T)) : 0;
    }
    std::size_t y_bytes() const {
        return packs_y_ ? aligned(static_cast<std::size_t>(images_ * rows_ * y_row_size()) * sizeof(T)) : 0;
    }

    /// `pixels`: that each weight is summed over.
    template <class Work>
    void for_each_tile(const CpuStream& stream, std::int64_t pixels, Work&& work) const {
        const std::int64_t step = quotient_up(quotient_up(p.outputs, stream.threads), kTileRows) * kTileRows;
        const std::int64_t parts = quotient_up(p.outputs, step), panels = quotient_up(p.inputs, kPanel<T>);
        const std::int64_t taps = p.h.kernel * p.w.kernel, weights = p.groups * p.outputs * p.inputs * taps;
        parallel_for(stream, p.groups * parts * taps * panels, weights * (pixels + 8) / 8, [&](std::int64_t i) {
            Tile tile{};
            tile.tap = i / panels % taps;
            tile.input = i % panels * kPanel<T>;
            tile.output = i / panels / taps % parts * step;
            tile.group = i / panels / taps / parts;
            tile.inputs = std::min(kPanel<T>, p.inputs - tile.input);
            tile.outputs = std::min(step, p.outputs - tile.output);
            work(tile);
        });
    }

    /// The sums of a tile's first weight, and the step from one output's to the next one's.
    T* sums_at(const Tile& tile, T* sums) const {
        const std::int64_t output = tile.group * p.outputs + tile.output;
        if (!in_place_) return sums + output * output_step() + tile.tap * padded_inputs() + tile.input;
        return sums + p.weight.offset(output, tile.input, tile.tap / p.w.kernel, tile.tap % p.w.kernel);
    }
    std::int64_t output_step() const {
        return in_place_ ? p.weight.stride[0] : p.h.kernel * p.w.kernel * padded_inputs();
    }

    /// The weight times beta, or zeros.
    void begin(const Tile& tile, T* sums) const {
        for (std::int64_t i = 0; i < tile.outputs; ++i) {
            T* row = sums_at(tile, sums) + i * output_step();
            if (!in_place_ || p.beta == 0) {
                std::fill_n(row, padded<T>(tile.inputs), T{0});
            } else if (p.beta != 1) {
                for (std::int64_t j = 0; j < tile.inputs; ++j) row[j] *= static_cast<T>(p.beta);
            }
        }
    }
    void finish(const Tile& tile, T* sums) const {
        for (std::int64_t i = 0; i < tile.outputs; ++i) {
            const std::int64_t at = p.weight.offset(tile.group * p.outputs + tile.output + i, tile.input,
                                                    tile.tap / p.w.kernel, tile.tap % p.w.kernel);
            finish_pixel(p, tile.input, tile.inputs, sums_at(tile, sums) + i * output_step(), p.weight.at(at));
        }
    }

    void add(const Tile& tile, const Part& part, const Pixels<T>& x, const Pixels<T>& y, T* sums) const {
        const Range rows(p.h, tile.tap / p.w.kernel, part.row, part.row + part.rows);
        const Range columns(p.w, tile.tap % p.w.kernel, 0, p.w.output);
        if (rows.size == 0 || columns.size == 0) return;
        const TileSize size{tile.outputs, padded<T>(tile.inputs), columns.size, rows.size, y.row, p.h.stride * x.row};
        const T* from_y = y.data + tile.group * y.group + tile.output * y.channel + (rows.first - y.first_row) * y.row +
                          columns.first * y.pixel;
        const T* from_x = x.data + tile.group * x.group + tile.input * x.channel +
                          (p.h.at(rows.first, tile.tap / p.w.kernel) - x.first_row) * x.row +
                          p.w.at(columns.first, tile.tap % p.w.kernel) * x.pixel;
        for (std::int64_t image = 0; image < part.images; ++image)
            tile_product(size, from_y + image * y.image, y.channel, y.pixel, from_x + image * x.image,
                         p.w.stride * x.pixel, sums_at(tile, sums), output_step(), true);
    }

    /// x as it lies, or the part's rows of it, packed.
    Pixels<T> x_pixels(const CpuStream& stream, const Part& part, T* memory) const {
        const std::int64_t first = std::max<std::int64_t>(0, p.h.at(part.row, 0));
        if (!packs_x_)
            return {reinterpret_cast<const T*>(p.x.data) + part.image * p.x.stride[0],
                    p.x.stride[0],
                    p.x.stride[2],
                    p.x.stride[3],
                    p.inputs,
                    1,
                    0};
        const std::int64_t rows = std::min(p.h.input, p.h.at(part.row + part.rows - 1, p.h.kernel - 1) + 1) - first;
        pack_rows(stream, p.x, part, first, rows, p.w.input, p.inputs, padded_inputs(), memory);
        return {memory, rows * x_row_size(), x_row_size(), padded_inputs(), p.w.input * padded_inputs(), 1, first};
    }
    Pixels<T> y_pixels(const CpuStream& stream, const Part& part, T* memory) const {
        if (!packs_y_)
            return {reinterpret_cast<const T*>(p.y.data) + part.image * p.y.stride[0],
                    p.y.stride[0],
                    p.y.stride[2],
                    p.y.stride[3],
                    p.outputs * p.y.stride[1],
                    p.y.stride[1],
                    0};
        pack_rows(stream, p.y, part, part.row, part.rows, p.w.output, p.outputs, p.outputs, memory);
        return {memory, part.rows * y_row_size(), y_row_size(), p.outputs, p.w.output * p.outputs, 1, part.row};
    }
    /// [images, rows, groups, columns, width], zeros behind a group's channels.
    void pack_rows(const CpuStream& stream, const ConvolutionArray& from, const Part& part, std::int64_t first,
                   std::int64_t rows, std::int64_t columns, std::int64_t channels, std::int64_t width, T* out) const {
        const std::int64_t lines = part.images * std::max<std::int64_t>(rows, 0) * p.groups;
        parallel_for(stream, lines, lines * columns * channels, [&](std::int64_t i) {
            const std::int64_t group = i % p.groups, row = i / p.groups % rows, image = i / p.groups / rows;
            pack(from.at(from.offset(part.image + image, group * channels, first + row, 0)), p.operand, from.stride[3],
                 from.stride[1], columns, channels, out + i * columns * width, width, width);
        });
    }

    const ConvolutionProblem& p;
    bool packs_x_, packs_y_, in_place_;
    std::int64_t rows_, images_;
};

}  // namespace

std::size_t blocked_weight_scratch(const ConvolutionProblem& p) {
    return p.operand == Dtype::f64 ? WeightGradient<double>(p).scratch() : WeightGradient<float>(p).scratch();
}

void blocked_weight(CpuStream& stream, const ConvolutionProblem& p, std::byte* scratch) {
    p.operand == Dtype::f64 ? WeightGradient<double>(p).run(stream, scratch)
                            : WeightGradient<float>(p).run(stream, scratch);
}

}  // namespace headroom::kernels
