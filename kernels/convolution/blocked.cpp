#include <headroom/kernels/convolution/internal/blocked.hpp>

#include <algorithm>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/convolution/internal/slices.hpp>
#include <headroom/kernels/matmul/internal/activation.hpp>
#include <headroom/kernels/matmul/internal/pack.hpp>
#include <headroom/kernels/matmul/internal/tile.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kPixels = 240;  // of sums per share: they and a panel of weights share the second-level cache
constexpr std::int64_t kDepth = 384;   // rows of a panel at a time

/// The weights as both passes read them: for each group and panel of columns, each tap's matrix [depth, width].
template <class T>
struct Weights {
    const ConvolutionProblem& p;
    std::int64_t depth, columns;
    std::int64_t depth_stride, column_stride;
    T* packed = nullptr;

    std::int64_t panels() const { return quotient_up(columns, kPanel<T>); }
    std::int64_t taps() const { return p.h.kernel * p.w.kernel; }
    std::int64_t columns_of(std::int64_t panel) const { return std::min(kPanel<T>, columns - panel * kPanel<T>); }
    std::int64_t width_of(std::int64_t panel) const { return padded<T>(columns_of(panel)); }
    std::int64_t group_size() const { return taps() * depth * padded<T>(columns); }
    std::size_t bytes() const { return aligned(static_cast<std::size_t>(p.groups * group_size()) * sizeof(T)); }
    T* at(std::int64_t group, std::int64_t panel, std::int64_t tap) const {
        return packed + group * group_size() + (panel * taps() * kPanel<T> + tap * width_of(panel)) * depth;
    }

    void pack_all(const CpuStream& stream) const {
        parallel_for(stream, p.groups * panels() * taps(), p.groups * group_size(), [&](std::int64_t i) {
            const std::int64_t tap = i % taps(), panel = i / taps() % panels(), group = i / taps() / panels();
            const std::int64_t from = group * p.outputs * p.weight.stride[0] + panel * kPanel<T> * column_stride +
                                      tap / p.w.kernel * p.weight.stride[2] + tap % p.w.kernel * p.weight.stride[3];
            const std::int64_t width = width_of(panel);
            pack(p.weight.at(from), p.operand, depth_stride, column_stride, depth, columns_of(panel),
                 at(group, panel, tap), width, width);
        });
    }
};

/// Rows of one image's result, of one group.
struct Share {
    std::int64_t image, group, first, rows;
};

/// Row `row` of a group's image [width, channels]; `columns` of them.
template <class T>
void pack_row(const ConvolutionArray& x, Dtype dtype, std::int64_t image, std::int64_t channel, std::int64_t row,
              std::int64_t columns, std::int64_t channels, T* out) {
    if (channels == 0) return;
    pack(x.at(x.offset(image, channel, row, 0)), dtype, x.stride[3], x.stride[1], columns, channels, out, channels,
         channels);
}

/// y's rows: a product of each row of x, seen `kernel` pixels wide, with the weights of each row of taps.
template <class T>
class Forward {
  public:
    explicit Forward(const ConvolutionProblem& problem) : p(problem) {}

    Weights<T> weights() const { return {p, p.inputs, p.outputs, p.weight.stride[1], p.weight.stride[0]}; }
    std::int64_t rows() const { return p.h.output; }
    std::int64_t sums_width() const { return p.w.output; }
    std::int64_t packed(std::int64_t rows) const { return read_rows(rows) * p.w.reached() * p.inputs; }

    void compute(const Share& share, const Weights<T>& weights, T* x, T* sums) const {
        pack_rows(share, x);
        for (std::int64_t panel = 0; panel < weights.panels(); ++panel) {
            const std::int64_t width = weights.width_of(panel), channel = share.group * p.outputs + panel * kPanel<T>;
            const bool direct = writes_sums() && weights.columns_of(panel) == width;
            T* const y = reinterpret_cast<T*>(p.y.at(p.y.offset(share.image, channel, share.first, 0)));
            const Sums to = direct ? Sums{y, p.y.stride[2], p.y.stride[3], p.beta != 0}
                                   : Sums{sums, p.w.output * width, width, false};
            if (p.inputs == 0) std::fill_n(sums, share.rows * p.w.output * width, T{0});
            // Neighbouring taps of a row, and their channels, are one axis where nothing lies between them.
            const std::int64_t together = p.w.dilation == 1 ? p.w.kernel : 1;
            for (std::int64_t tap = 0; tap < weights.taps(); tap += together)
                add_taps(share, tap, together * p.inputs, width, weights.at(share.group, panel, tap), x,
                         {to.data, to.row, to.pixel, to.accumulate || tap != 0});
            for (std::int64_t row = 0; row < (direct ? 0 : share.rows); ++row) {
                for (std::int64_t column = 0; column < p.w.output; ++column) {
                    finish_pixel(p, channel, weights.columns_of(panel), sums + (row * p.w.output + column) * width,
                                 p.y.at(p.y.offset(share.image, channel, share.first + row, column)));
                }
            }
        }
    }

  private:
    /// Where sums are kept: in y itself, if nothing is to be done to them.
    struct Sums {
        T* data;
        std::int64_t row, pixel;  // strides
        bool accumulate;
    };
    bool writes_sums() const {
        return p.y.dtype == dtype_of<T> && p.y.stride[1] == 1 && p.inputs > 0 && !p.has_bias &&
               (p.beta == 0 || p.beta == 1) && p.activation == Activation::none;
    }

    std::int64_t read_rows(std::int64_t rows) const { return (rows - 1) * p.h.stride + p.h.covered(); }

    void pack_rows(const Share& share, T* x) const {
        const std::int64_t row_size = p.w.reached() * p.inputs, first = p.h.at(share.first, 0);
        const std::int64_t columns = std::clamp<std::int64_t>(p.w.reached() - p.w.padding, 0, p.w.input);
        std::fill_n(x, packed(share.rows), T{0});
        for (std::int64_t row = 0; row < read_rows(share.rows); ++row) {
            if (first + row < 0 || first + row >= p.h.input) continue;
            pack_row(p.x, p.operand, share.image, share.group * p.inputs, first + row, columns, p.inputs,
                     x + row * row_size + p.w.padding * p.inputs);
        }
    }
    void add_taps(const Share& share, std::int64_t tap, std::int64_t depth, std::int64_t width, const T* weights,
                  const T* x, const Sums& to) const {
        const std::int64_t row_size = p.w.reached() * p.inputs;
        const T* from = x + tap / p.w.kernel * p.h.dilation * row_size + tap % p.w.kernel * p.w.dilation * p.inputs;
        for (std::int64_t begin = 0; begin < depth; begin += kDepth) {
            const TileSize size{p.w.output, width, std::min(kDepth, depth - begin)};
            for (std::int64_t row = 0; row < share.rows; ++row)
                tile_product(size, from + row * p.h.stride * row_size + begin, p.w.stride * p.inputs, 1,
                             weights + begin * width, width, to.data + row * to.row, to.pixel,
                             to.accumulate || begin != 0);
        }
    }

    const ConvolutionProblem& p;
};

/// x's rows: each row of y, times a tap's weights, is added to every `stride`-th pixel of a row with its padding.
template <class T>
class Data {
  public:
    explicit Data(const ConvolutionProblem& problem) : p(problem) {}

    Weights<T> weights() const { return {p, p.outputs, p.inputs, p.weight.stride[0], p.weight.stride[1]}; }
    std::int64_t rows() const { return p.h.input; }
    std::int64_t sums_width() const { return std::max(p.w.reached(), p.w.input + p.w.padding); }
    std::int64_t packed(std::int64_t rows) const {
        return std::min(p.h.output, (rows + p.h.covered() - 2) / p.h.stride + 1) * p.w.output * p.outputs;
    }

    void compute(const Share& share, const Weights<T>& weights, T* y, T* sums) const {
        const std::int64_t from = share.first + p.h.padding - p.h.covered() + 1;
        const std::int64_t first = from <= 0 ? 0 : quotient_up(from, p.h.stride);
        const std::int64_t last = std::min(p.h.output - 1, (share.first + share.rows - 1 + p.h.padding) / p.h.stride);
        const std::int64_t row_size = p.w.output * p.outputs;
        for (std::int64_t row = first; row <= last; ++row)
            pack_row(p.y, p.operand, share.image, share.group * p.outputs, row, p.w.output, p.outputs,
                     y + (row - first) * row_size);
        for (std::int64_t panel = 0; panel < weights.panels(); ++panel) {
            const std::int64_t width = weights.width_of(panel), sums_row = sums_width() * width;
            std::fill_n(sums, share.rows * sums_row, T{0});
            for (std::int64_t tap = 0; tap < weights.taps(); ++tap) {
                const T* matrix = weights.at(share.group, panel, tap);
                for (std::int64_t row = 0; row < share.rows; ++row) {
                    const std::int64_t at = share.first + row + p.h.padding - tap / p.w.kernel * p.h.dilation;
                    if (at < 0 || at % p.h.stride != 0 || at / p.h.stride >= p.h.output) continue;
                    tile_product({p.w.output, width, p.outputs}, y + (at / p.h.stride - first) * row_size, p.outputs, 1,
                                 matrix, width, sums + row * sums_row + tap % p.w.kernel * p.w.dilation * width,
                                 p.w.stride * width, true);
                }
            }
            const std::int64_t channel = share.group * p.inputs + panel * kPanel<T>;
            for (std::int64_t row = 0; row < share.rows; ++row) {
                for (std::int64_t column = 0; column < p.w.input; ++column)
                    finish_pixel(p, channel, weights.columns_of(panel),
                                 sums + row * sums_row + (column + p.w.padding) * width,
                                 p.x.at(p.x.offset(share.image, channel, share.first + row, column)));
            }
        }
    }

  private:
    const ConvolutionProblem& p;
};

/// How a pass's rows are shared out.
template <class T, class Pass>
struct Shares {
    Shares(const Pass& pass, const ConvolutionProblem& p, int threads) {
        const std::int64_t planes = p.images * p.groups;
        rows = std::clamp<std::int64_t>(kPixels / pass.sums_width(), 1,
                                        quotient_up(pass.rows(), quotient_up(threads, planes)));
        parts = quotient_up(pass.rows(), rows);
        count = planes * parts;
        width = std::min(kPanel<T>, padded<T>(pass.weights().columns));
        read = aligned(static_cast<std::size_t>(pass.packed(rows)) * sizeof(T));
        sums = aligned(static_cast<std::size_t>(rows * pass.sums_width() * width) * sizeof(T));
        this->threads = std::min<std::int64_t>(threads, count);
    }
    std::size_t per_thread() const { return read + sums + kScratchGap; }

    std::int64_t rows, parts, count, width, threads;
    std::size_t read, sums;
};

template <class T, class Pass>
std::size_t scratch_of(const ConvolutionProblem& p, int threads) {
    const Pass pass(p);
    const Shares<T, Pass> shares(pass, p, threads);
    return pass.weights().bytes() + static_cast<std::size_t>(shares.threads) * shares.per_thread();
}

template <class T, class Pass>
void compute(CpuStream& stream, const ConvolutionProblem& p, std::byte* scratch) {
    const Pass pass(p);
    const Shares<T, Pass> shares(pass, p, stream.threads);
    Weights<T> weights = pass.weights();
    weights.packed = reinterpret_cast<T*>(scratch);
    weights.pack_all(stream);
    parallel_for(stream, shares.threads, p.work() / 8, [&](std::int64_t thread) {
        std::byte* memory = scratch + weights.bytes() + static_cast<std::size_t>(thread) * shares.per_thread();
        const std::int64_t end = (thread + 1) * shares.count / shares.threads;
        for (std::int64_t i = thread * shares.count / shares.threads; i < end; ++i) {
            const std::int64_t first = i % shares.parts * shares.rows, plane = i / shares.parts;
            pass.compute({plane / p.groups, plane % p.groups, first, std::min(shares.rows, pass.rows() - first)},
                         weights, reinterpret_cast<T*>(memory), reinterpret_cast<T*>(memory + shares.read));
        }
    });
}

}  // namespace

template <class T>
void finish_pixel(const ConvolutionProblem& p, std::int64_t first_channel, std::int64_t channels, T* values,
                  std::byte* y) {
    const Dtype dtype = p.written().dtype;
    const std::int64_t step = p.written().stride[1];
    T buffer[kPanel<T>];
    if (p.beta != 0) {
        const T* old = borrow(y, dtype, step, channels, buffer);
        for (std::int64_t j = 0; j < channels; ++j) values[j] += static_cast<T>(p.beta) * old[j];
    }
    if (p.has_bias) {
        load(p.bias_at(first_channel), p.bias_dtype, p.bias_step, channels, buffer);
        for (std::int64_t j = 0; j < channels; ++j) values[j] += buffer[j];
    }
    if (p.activation == Activation::relu) {
        for (std::int64_t j = 0; j < channels; ++j) values[j] = Relu{}(values[j]);
    }
    store(values, channels, y, dtype, step);
}

template void finish_pixel(const ConvolutionProblem&, std::int64_t, std::int64_t, float*, std::byte*);
template void finish_pixel(const ConvolutionProblem&, std::int64_t, std::int64_t, double*, std::byte*);

std::size_t blocked_scratch(int threads, const ConvolutionProblem& p) {
    if (p.pass == ConvolutionPass::weight) return blocked_weight_scratch(p);
    if (const auto forward = turned(p)) return blocked_scratch(threads, *forward);
    const bool wide = p.operand == Dtype::f64, forward = p.pass == ConvolutionPass::forward;
    if (wide)
        return forward ? scratch_of<double, Forward<double>>(p, threads) : scratch_of<double, Data<double>>(p, threads);
    return forward ? scratch_of<float, Forward<float>>(p, threads) : scratch_of<float, Data<float>>(p, threads);
}

void blocked_convolution(CpuStream& stream, const ConvolutionProblem& p, std::byte* scratch) {
    if (p.pass == ConvolutionPass::weight) return blocked_weight(stream, p, scratch);
    if (const auto forward = turned(p)) return blocked_convolution(stream, *forward, scratch);
    const bool wide = p.operand == Dtype::f64, forward = p.pass == ConvolutionPass::forward;
    if (wide)
        return forward ? compute<double, Forward<double>>(stream, p, scratch)
                       : compute<double, Data<double>>(stream, p, scratch);
    return forward ? compute<float, Forward<float>>(stream, p, scratch)
                   : compute<float, Data<float>>(stream, p, scratch);
}

}  // namespace headroom::kernels
