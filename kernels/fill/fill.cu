#include <headroom/kernels/fill/fill.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kUnit = 16;  // bytes of one access

/// Sixteen bytes made of one element.
using Pattern = Vector<std::uint32_t, 4>;

Pattern pattern_of(double value, Dtype dtype) {
    alignas(kUnit) std::byte bytes[kUnit];
    const std::size_t size = size_of(dtype);
    store_one(value, bytes, dtype);
    for (std::size_t i = size; i < sizeof bytes; ++i) bytes[i] = bytes[i - size];
    Pattern pattern;
    std::memcpy(&pattern, bytes, sizeof pattern);
    return pattern;
}

/// The first bytes of a pattern, as many as an element has.
HEADROOM_DEVICE void store_bits(std::byte* p, std::size_t size, const Pattern& pattern) {
    if (size == 1) *reinterpret_cast<std::uint8_t*>(p) = static_cast<std::uint8_t>(pattern[0]);
    if (size == 2) *reinterpret_cast<std::uint16_t*>(p) = static_cast<std::uint16_t>(pattern[0]);
    if (size == 4) *reinterpret_cast<std::uint32_t*>(p) = pattern[0];
    if (size == 8) *reinterpret_cast<std::uint64_t*>(p) = pattern[0] | std::uint64_t{pattern[1]} << 32;
}

/// `count` elements side by side: whole units in the middle, the few elements before and behind them one by one.
struct FillRun {
    static constexpr unsigned kMaxThreads = kThreads;
    Pattern pattern;
    std::int64_t size;
    std::int64_t before;  // elements
    std::int64_t units;

    HEADROOM_DEVICE void operator()(Block& block, std::byte* y, std::int64_t count) const {
        auto* middle = reinterpret_cast<std::uint32_t*>(y + before * size);
        for (std::int64_t i = block.global_thread(); i < units; i += block.global_threads())
            block.store(middle + 4 * i, pattern);
        const std::int64_t first = block.global_thread();
        if (first < before) store_bits(y + first * size, static_cast<std::size_t>(size), pattern);
        const std::int64_t last = before + units * (kUnit / size) + first;
        if (last < count) store_bits(y + last * size, static_cast<std::size_t>(size), pattern);
    }
};

/// Units, or elements, of any strides.
struct FillStrided {
    static constexpr unsigned kMaxThreads = kThreads;
    Pattern pattern;
    std::int64_t size;
    bool units;

    HEADROOM_DEVICE void operator()(Block& block, std::byte* y, const StridedAxes<1> at) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            std::byte* p = y + at.offsets(i)[0] * size;
            if (units) {
                block.store(reinterpret_cast<std::uint32_t*>(p), pattern);
            } else {
                store_bits(p, static_cast<std::size_t>(size), pattern);
            }
        }
    }
};

struct Arange {
    static constexpr unsigned kMaxThreads = kThreads;
    double start;
    double step;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<1> y) const {
        for (std::int64_t i = block.global_thread(); i < y.numel(); i += block.global_threads())
            y.store(0, y.offsets(i), start + static_cast<double>(i) * step);
    }
};

/// A thread writes `Width` elements of a row at once.
template <class Element, int Width>
struct CausalMask {
    static constexpr unsigned kMaxThreads = kThreads;
    Element no;
    Element yes;
    std::int64_t offset;  // keys - queries
    std::int64_t row_stride;
    std::int64_t stride;
    Divisor per_row;

    HEADROOM_DEVICE void operator()(Block& block, Element* y, std::int64_t groups) const {
        for (std::int64_t i = block.global_thread(); i < groups; i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(per_row.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t first = (i - row * per_row.value()) * Width;
            Vector<Element, Width> values;
#pragma unroll
            for (int k = 0; k < Width; ++k) values[k] = first + k <= row + offset ? yes : no;
            block.store(y + row * row_stride + first * stride, values);
        }
    }
};

template <class Element, int Width>
void launch_mask(CudaStream& stream, const View& y) {
    Element no, yes;
    store_one(0.0, &no, y.dtype);
    store_one(1.0, &yes, y.dtype);
    const std::int64_t per_row = y.size(1) / Width, groups = y.size(0) * per_row;
    launch(stream, {.x = grid_for(stream, groups, kThreads), .loops = true, .threads = kThreads},
           CausalMask<Element, Width>{no, yes, y.size(1) - y.size(0), y.stride(0), y.stride(1), Divisor(per_row)},
           y.as<Element>(), groups);
}

/// Elements are written as their bits.
template <class Element>
void mask_of(CudaStream& stream, const View& y) {
    constexpr std::int64_t width = kUnit / static_cast<std::int64_t>(sizeof(Element));
    const bool rows_fit = y.size(0) == 1 || y.stride(0) % width == 0;
    const bool wide =
        y.stride(1) == 1 && y.size(1) % width == 0 && rows_fit && std::bit_cast<std::uintptr_t>(y.data) % kUnit == 0;
    if (wide) return launch_mask<Element, width>(stream, y);
    launch_mask<Element, 1>(stream, y);
}

}  // namespace

void fill(CudaStream& stream, double value, const View& y) {
    const std::int64_t n = y.numel();
    if (n == 0) return;
    const auto size = static_cast<std::int64_t>(size_of(y.dtype));
    const Pattern pattern = pattern_of(value, y.dtype);
    const Walk walk({&y});
    auto* data = static_cast<std::byte*>(y.data);
    if (walk.axes() == 1 && walk.stride(0) == 1) {
        const auto misaligned = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(data) % kUnit);
        const std::int64_t before = std::min(n, (kUnit - misaligned) % kUnit / size);
        const std::int64_t units = (n - before) * size / kUnit;
        const LaunchShape shape{
            .x = grid_for(stream, std::max<std::int64_t>(units, 1), 4 * kThreads), .loops = true, .threads = kThreads};
        return launch(stream, shape, FillRun{pattern, size, before, units}, data, n);
    }
    const View* views[] = {&y};
    const std::int64_t width = kUnit / size;
    const bool units = walk.row_size() % width == 0 && rows_aligned(walk, views, 1, kUnit);
    const auto at = grouped<1>(walk, units ? width : 1);
    launch(stream, {.x = grid_for(stream, at.numel(), kThreads), .loops = true, .threads = kThreads},
           FillStrided{pattern, size, units}, data, at);
}

void arange(CudaStream& stream, double start, double step, const View& y) {
    if (y.numel() == 0) return;
    launch(stream, {.x = grid_for(stream, y.numel(), kThreads), .loops = true, .threads = kThreads},
           Arange{start, step}, Strided<1>({&y}, Walk::Order::shape));
}

void causal_mask(CudaStream& stream, const View& y) {
    if (y.numel() == 0) return;
    switch (size_of(y.dtype)) {
        case 1:
            return mask_of<std::uint8_t>(stream, y);
        case 2:
            return mask_of<std::uint16_t>(stream, y);
        case 4:
            return mask_of<std::uint32_t>(stream, y);
        default:
            return mask_of<std::uint64_t>(stream, y);
    }
}

}  // namespace headroom::kernels
