#include <headroom/kernels/gather/gather.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/gather/internal/gathering.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

/// A Gathering for kernels: offsets in y, x and the index, and the position.
struct Elements {
    StridedAxes<4> axes;
    void* y;
    const void* x;
    Dtype y_dtype, x_dtype;
    IndexReader index;
    std::int64_t x_axis;
    std::int64_t size;  ///< of an element of x, in bytes

    HEADROOM_DEVICE std::int64_t source(Block& block, const Offsets<4>& at, const IndexCheck& check) const {
        return at[1] + check(block, index(at[2]), at[3]) * x_axis;
    }
};

template <class T>
HEADROOM_DEVICE void copy_one(void* y, std::int64_t to, const void* x, std::int64_t from) {
    static_cast<T*>(y)[to] = static_cast<const T*>(x)[from];
}

struct GatherElements {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const Elements e, const IndexCheck check) const {
        for (std::int64_t i = block.global_thread(); i < e.axes.numel(); i += block.global_threads()) {
            const Offsets<4> at = e.axes.offsets(i);
            const std::int64_t from = e.source(block, at, check);
            if (check.bound == 0) continue;  // there is nothing to read
            if (e.x_dtype == e.y_dtype) {
                copy_bits(e, at[0], from);
            } else {
                convert(e, at[0], from);
            }
        }
    }

    HEADROOM_DEVICE static void copy_bits(const Elements& e, std::int64_t to, std::int64_t from) {
        switch (e.size) {
            case 1:
                return copy_one<std::uint8_t>(e.y, to, e.x, from);
            case 2:
                return copy_one<std::uint16_t>(e.y, to, e.x, from);
            case 4:
                return copy_one<std::uint32_t>(e.y, to, e.x, from);
            default:
                return copy_one<std::uint64_t>(e.y, to, e.x, from);
        }
    }

    HEADROOM_DEVICE static void convert(const Elements& e, std::int64_t to, std::int64_t from) {
        if (e.size == 8 || e.x_dtype == Dtype::i32) {
            store_as<double>(e.y, e.y_dtype, to, load_as<double>(e.x, e.x_dtype, from));
        } else {
            store_as<float>(e.y, e.y_dtype, to, load_as<float>(e.x, e.x_dtype, from));
        }
    }
};

/// Rows whose elements are neighbours in x and y, in units of 16 bytes. `lanes`, a power of two, threads share a row.
struct GatherRows {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kAtOnce = 4;  // loads under way before the first store
    using Unit = Vector<std::uint32_t, 4>;

    HEADROOM_DEVICE void operator()(Block& block, const Elements e, const IndexCheck check, std::int64_t rows,
                                    std::int64_t units, unsigned lanes) const {
        const unsigned lane = block.thread() & (lanes - 1), in_block = block.threads() / lanes;
        const std::int64_t part = std::int64_t{lanes} * kAtOnce;
        for (std::int64_t row = std::int64_t{block.x()} * in_block + block.thread() / lanes; row < rows;
             row += std::int64_t{block.grid_x()} * in_block) {
            const Offsets<4> at = e.axes.offsets(row * e.axes.row_size());
            const std::int64_t from = e.source(block, at, check);
            if (check.bound == 0) continue;
            const auto* source = reinterpret_cast<const std::uint32_t*>(static_cast<const char*>(e.x) + from * e.size);
            auto* target = reinterpret_cast<std::uint32_t*>(static_cast<char*>(e.y) + at[0] * e.size);
            for (std::int64_t i = block.y() * part + lane; i < units; i += block.grid_y() * part)
                copy(block, source, target, i, units, lanes);
        }
    }

    HEADROOM_DEVICE static void copy(Block& block, const std::uint32_t* source, std::uint32_t* target, std::int64_t i,
                                     std::int64_t units, unsigned lanes) {
        Unit values[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k)
            if (i + k * lanes < units) values[k] = block.load<4>(source + 4 * (i + k * lanes));
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k)
            if (i + k * lanes < units) block.store(target + 4 * (i + k * lanes), values[k]);
    }
};

struct CheckIndices {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const StridedAxes<1> axes, const IndexReader index,
                                    const IndexCheck check) const {
        for (std::int64_t i = block.global_thread(); i < axes.numel(); i += block.global_threads())
            check(block, index(axes.offsets(i)[0]), i);
    }
};

bool in_units(const View& view, const StridedAxes<4>& axes, int operand) {
    constexpr std::int64_t unit = 16;
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    bool aligned = std::bit_cast<std::uintptr_t>(view.data) % unit == 0 && axes.stride(operand) == 1;
    for (int i = 1; i < axes.axes(); ++i) aligned = aligned && axes.stride(operand, i) * size % unit == 0;
    return aligned && axes.row_size() * size % unit == 0;
}

void gather_rows(CudaStream& stream, const Elements& elements, const IndexCheck& check) {
    const std::int64_t rows = elements.axes.numel() / elements.axes.row_size();
    const std::int64_t units = elements.axes.row_size() * elements.size / 16;
    const auto lanes =
        static_cast<unsigned>(std::min<std::uint64_t>(kThreads, std::bit_ceil(static_cast<std::uint64_t>(units))));
    const std::int64_t parts = (units - 1) / (std::int64_t{lanes} * GatherRows::kAtOnce) + 1;
    const LaunchShape shape{.x = grid_for(stream, rows, kThreads / lanes),
                            .loops = true,
                            .y = static_cast<std::uint32_t>(std::min<std::int64_t>(parts, 65535)),
                            .threads = kThreads};
    launch(stream, shape, GatherRows{}, elements, check, rows, units, lanes);
}

}  // namespace

void gather_elements(CudaStream& stream, const Gathering& g, const IndexCheck& check) {
    const StridedAxes<4> axes(Walk({&g.y, &g.x, &g.index, &g.position}, Walk::Order::shape), 4);
    if (axes.numel() == 0) return;
    const auto size = static_cast<std::int64_t>(size_of(g.x.dtype));
    const Elements elements{axes, g.y.data, g.x.data, g.y.dtype, g.x.dtype, IndexReader(g.index), g.x_axis, size};
    if (g.x.dtype == g.y.dtype && axes.stride(2) == 0 && g.x_axis * size % 16 == 0 && in_units(g.x, axes, 1) &&
        in_units(g.y, axes, 0)) {
        return gather_rows(stream, elements, check);
    }
    launch(stream, {.x = grid_for(stream, axes.numel(), kThreads), .loops = true, .threads = kThreads},
           GatherElements{}, elements, check);
}

void check_indices(CudaStream& stream, const View& index, const IndexCheck& check) {
    const StridedAxes<1> axes(Walk({&index}, Walk::Order::shape), 1);
    launch(stream, {.x = grid_for(stream, axes.numel(), kThreads), .loops = true, .threads = kThreads}, CheckIndices{},
           axes, IndexReader(index), check);
}

void check_index(CudaStream& stream, const char* what, const View& index, std::int64_t bound) {
    check_indices(stream, index, index_check(stream, what, bound));
}

void gather(CudaStream& stream, const View& x, int axis, const View& index, const View& y) {
    const IndexCheck check = index_check(stream, "gather: index", x.shape[axis]);
    Gathering gathering{y,
                        {x.data, x.dtype, y.shape, x.strides},
                        index,
                        contiguous_view(nullptr, Dtype::i64, y.shape),
                        x.strides[axis]};
    gathering.x.strides[axis] = 0;
    gather_elements(stream, gathering, check);
}

void index_select(CudaStream& stream, const View& x, int axis, const View& index, const View& y) {
    const IndexCheck check = index_check(stream, "index_select: index", x.shape[axis]);
    if (y.numel() == 0) return check_indices(stream, index, check);
    const View counting{nullptr, Dtype::i64, index.shape, {1}};
    Gathering gathering{y,
                        {x.data, x.dtype, y.shape, x.strides},
                        spread(index, axis, y.shape),
                        spread(counting, axis, y.shape),
                        x.strides[axis]};
    gathering.x.strides[axis] = 0;
    gather_elements(stream, gathering, check);
}

}  // namespace headroom::kernels
