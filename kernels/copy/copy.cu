#include <headroom/kernels/copy/copy.hpp>

#include <algorithm>
#include <bit>
#include <type_traits>

#include <headroom/kernels/copy/internal/transposition.hpp>
#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/pointwise/internal/elementwise.hpp>

// Elements of one dtype are moved as bits, in the widest units that both arrays allow; everything else is
// y = alpha x + beta y, of which a conversion is the case of 1 and 0. Tiles of transpositions are in transposition.cu.

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;
constexpr int kAtOnce = 4;          // accesses that a thread has under way
constexpr std::int64_t kUnit = 16;  // bytes of the widest access

struct Unit16 {
    using Element = std::uint32_t;
    static constexpr int kElements = 4;
};
template <class T>
struct Unit {
    using Element = T;
    static constexpr int kElements = 1;
};

/// Units of any strides. Offsets are in the arrays' own elements, of `size` bytes.
template <class Unit>
struct CopyUnits {
    static constexpr unsigned kMaxThreads = kThreads;
    std::int64_t size;

    HEADROOM_DEVICE void operator()(Block& block, const std::byte* x, std::byte* y, const StridedAxes<2> at) const {
        using Element = typename Unit::Element;
        const std::int64_t step = block.global_threads();
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += kAtOnce * step) {
            Vector<Element, Unit::kElements> values[kAtOnce];
            std::int64_t target[kAtOnce];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) {
                if (i + k * step >= at.numel()) continue;
                const Offsets<2> offsets = at.offsets(i + k * step);
                target[k] = offsets[0] * size;
                values[k] = block.load<Unit::kElements>(reinterpret_cast<const Element*>(x + offsets[1] * size));
            }
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k)
                if (i + k * step < at.numel()) block.store(reinterpret_cast<Element*>(y + target[k]), values[k]);
        }
    }
};

/// `bytes` side by side in arrays that are misaligned alike: 16-byte units in the middle, single bytes around them.
struct CopyRun {
    static constexpr unsigned kMaxThreads = kThreads;
    std::int64_t before;
    std::int64_t units;

    HEADROOM_DEVICE void operator()(Block& block, const std::uint8_t* x, std::uint8_t* y, std::int64_t bytes) const {
        const auto* from = reinterpret_cast<const std::uint32_t*>(x + before);
        auto* to = reinterpret_cast<std::uint32_t*>(y + before);
        const std::int64_t step = block.global_threads();
        for (std::int64_t i = block.global_thread(); i < units; i += kAtOnce * step) {
            Vector<std::uint32_t, 4> values[kAtOnce];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k)
                if (i + k * step < units) values[k] = block.load<4>(from + 4 * (i + k * step));
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k)
                if (i + k * step < units) block.store(to + 4 * (i + k * step), values[k]);
        }
        const std::int64_t first = block.global_thread(), last = before + units * kUnit + first;
        if (first < before) y[first] = x[first];
        if (last < bytes) y[last] = x[last];
    }
};

/// Elements of the source repeated along the target's rows, which are written in units of 16 bytes.
template <class Element>
struct Repeat {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const Element* x, Element* y, const StridedAxes<2> at) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const Offsets<2> offsets = at.offsets(i);
            Vector<Element, kWide<Element>> values;
            const Element value = x[offsets[1]];
#pragma unroll
            for (int k = 0; k < kWide<Element>; ++k) values[k] = value;
            block.store(y + offsets[0], values);
        }
    }
};

template <class T>
struct Combine {
    static constexpr unsigned kMaxThreads = kThreads;
    T alpha;
    T beta;
    bool reads;  // y; not the same as beta != 0 where beta is truncated

    HEADROOM_DEVICE void operator()(Block& block, const Strided<2> at) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const Offsets<2> offsets = at.offsets(i);
            T value = alpha * at.load<T>(1, offsets);
            if (reads) value = value + beta * at.load<T>(0, offsets);
            at.store<T>(0, offsets, value);
        }
    }
};

struct CombineEights {
    static constexpr unsigned kMaxThreads = kThreads;
    float alpha;
    float beta;

    HEADROOM_DEVICE float result(float x, float y) const { return alpha * x + beta * y; }
    HEADROOM_DEVICE void operator()(Block& block, const Eights<2> at) const {
        for (std::int64_t g = block.global_thread(); g < at.groups(); g += block.global_threads()) {
            const Offsets<2> offsets = at.offsets(g);
            Floats<8> values = at.load(block, 1, offsets);
            if (beta != 0.0f) {
                const Floats<8> before = at.load(block, 0, offsets);
#pragma unroll
                for (int k = 0; k < 8; ++k) values[k] = result(values[k], before[k]);
            } else {
#pragma unroll
                for (int k = 0; k < 8; ++k) values[k] = alpha * values[k];
            }
            at.store(block, 0, offsets, values);
        }
        const std::int64_t i = at.rest(block.global_thread());
        if (i < 0) return;
        const float x = at.load_one(1, i);
        at.store_one(0, i, beta != 0.0f ? result(x, at.load_one(0, i)) : alpha * x);
    }
};

template <class T>
void combine(CudaStream& stream, const View& x, const View& y, float alpha, float beta) {
    if constexpr (std::is_same_v<T, float>) {
        const Eights<2> eights({&y, &x});
        if (eights.possible()) {
            const LaunchShape shape{.x = grid_for(stream, y.numel(), 8 * kThreads), .loops = true, .threads = kThreads};
            return launch(stream, shape, CombineEights{alpha, beta}, eights);
        }
        if (combine_transposed(stream, x, y, alpha, beta)) return;
    }
    launch(stream, {.x = grid_for(stream, y.numel(), kThreads), .loops = true, .threads = kThreads},
           Combine<T>{static_cast<T>(alpha), static_cast<T>(beta), beta != 0.0f}, Strided<2>({&y, &x}));
}

template <class Unit>
void copy_units(CudaStream& stream, const Walk& walk, std::int64_t width, const View& x, const View& y) {
    const auto at = grouped<2>(walk, width);
    launch(stream, {.x = grid_for(stream, at.numel(), kAtOnce * kThreads), .loops = true, .threads = kThreads},
           CopyUnits<Unit>{static_cast<std::int64_t>(size_of(y.dtype))}, x.as<const std::byte>(), y.as<std::byte>(),
           at);
}

/// True if the arrays are side by side and misaligned alike.
bool copy_run(CudaStream& stream, const Walk& walk, const View& x, const View& y) {
    const auto from = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(x.data) % kUnit);
    const auto to = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(y.data) % kUnit);
    if (walk.axes() != 1 || walk.stride(0) != 1 || walk.stride(1) != 1 || from != to) return false;
    const std::int64_t bytes = y.numel() * static_cast<std::int64_t>(size_of(y.dtype));
    const std::int64_t before = std::min(bytes, (kUnit - to) % kUnit), units = (bytes - before) / kUnit;
    launch(stream,
           {.x = grid_for(stream, std::max<std::int64_t>(units, 1), kAtOnce * kThreads),
            .loops = true,
            .threads = kThreads},
           CopyRun{before, units}, x.as<const std::uint8_t>(), y.as<std::uint8_t>(), bytes);
    return true;
}

template <class Element>
void repeat(CudaStream& stream, const Walk& walk, const View& x, const View& y) {
    const auto at = grouped<2>(walk, kWide<Element>);
    launch(stream, {.x = grid_for(stream, at.numel(), kThreads), .loops = true, .threads = kThreads}, Repeat<Element>{},
           x.as<const Element>(), y.as<Element>(), at);
}

/// Elements as their bits: unsigned integers of their size.
template <class Element>
void copy_bits(CudaStream& stream, const View& x, const View& y) {
    const Walk walk({&y, &x});
    if (copy_run(stream, walk, x, y)) return;
    const View* views[] = {&y, &x};
    const bool repeats = walk.stride(1) == 0;
    std::int64_t width = kWide<Element>;  // the most elements of one access
    while (width > 1 && (walk.row_size() % width != 0 ||
                         !rows_aligned(walk, views, 2, width * static_cast<std::int64_t>(sizeof(Element))))) {
        width /= 2;
    }
    if (repeats && width == kWide<Element>) return repeat<Element>(stream, walk, x, y);
    if (repeats) width = 1;
    switch (width * static_cast<std::int64_t>(sizeof(Element))) {
        case 16:
            return copy_units<Unit16>(stream, walk, width, x, y);
        case 8:
            return copy_units<Unit<std::uint64_t>>(stream, walk, width, x, y);
        case 4:
            return copy_units<Unit<std::uint32_t>>(stream, walk, width, x, y);
        case 2:
            return copy_units<Unit<std::uint16_t>>(stream, walk, width, x, y);
        default:
            return copy_units<Unit<std::uint8_t>>(stream, walk, width, x, y);
    }
}

}  // namespace

void copy(CudaStream& stream, const View& x, const View& y) {
    if (y.numel() == 0) return;
    if (x.dtype != y.dtype) {
        if (x.dtype == Dtype::f64) return combine<double>(stream, x, y, 1.0f, 0.0f);
        if (is_floating(x.dtype)) return combine<float>(stream, x, y, 1.0f, 0.0f);
        return combine<std::int64_t>(stream, x, y, 1.0f, 0.0f);
    }
    if (copy_transposed(stream, x, y)) return;
    switch (size_of(x.dtype)) {
        case 1:
            return copy_bits<std::uint8_t>(stream, x, y);
        case 2:
            return copy_bits<std::uint16_t>(stream, x, y);
        case 4:
            return copy_bits<std::uint32_t>(stream, x, y);
        default:
            return copy_bits<std::uint64_t>(stream, x, y);
    }
}

void accumulate(CudaStream& stream, const View& x, const View& y, float alpha, float beta) {
    if (y.numel() == 0) return;
    switch (compute_dtype({&x, &y})) {
        case Dtype::f64:
            return combine<double>(stream, x, y, alpha, beta);
        case Dtype::f32:
            return combine<float>(stream, x, y, alpha, beta);
        default:
            return combine<std::int64_t>(stream, x, y, alpha, beta);
    }
}

}  // namespace headroom::kernels
