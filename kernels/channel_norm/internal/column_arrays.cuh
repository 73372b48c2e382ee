#pragma once
// Access to columns of several arrays in CUDA kernels: a block has a tile of columns, in groups of W that are accessed
// together. Neighbouring threads have neighbouring groups; the block's other threads take other elements.
//
//     const ColumnArrays<2> arrays(columns, {&y, &x});                                 // host
//     const ColumnThread at(block, grid);                                          // kernel
//     const auto base = arrays.columns(at.column);
//     for (std::int64_t i = at.first; i < at.end; i += at.step)
//         arrays.template store<W>(block, 0, base, i, 0, arrays.template load<C, W>(block, 1, base, i));
#include <bit>

#include <headroom/kernels/channel_norm/internal/columns.hpp>
#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/row_access.hpp>

namespace headroom::kernels::device {

/// K arrays of one shape. Trivially copyable.
template <int K>
class ColumnArrays {
  public:
    ColumnArrays(const Columns& columns, const View* const (&views)[K]) : channels_(columns.channels) {
        View elements[K];
        const View* pointers[K];
        for (int k = 0; k < K; ++k) {
            elements[k] = columns.elements_of(*views[k]);
            pointers[k] = &elements[k];
            data_[k] = views[k]->data;
            dtype_[k] = views[k]->dtype;
            channel_[k] = views[k]->stride(1);
            image_[k] = columns.whole_batch ? 0 : views[k]->stride(0);
        }
        axes_ = StridedAxes<K>(kernels::Walk(pointers, K), K);
    }

    /// True if each eight neighbouring channels take 16 or 32 bytes and begin at a multiple of 16.
    bool takes_eights() const {
        for (int k = 0; k < K; ++k) {
            const auto size = static_cast<std::int64_t>(size_of(dtype_[k]));
            if (dtype_[k] == Dtype::f64 || channel_[k] != 1 || image_[k] * size % 16 != 0) return false;
            if (std::bit_cast<std::uintptr_t>(data_[k]) % 16 != 0) return false;
            for (int axis = 0; axis < axes_.axes(); ++axis) {
                if (axes_.numel() > 1 && axes_.stride(k, axis) * size % 16 != 0) return false;
            }
        }
        return true;
    }

    /// The offsets from which a column's elements are counted.
    HEADROOM_DEVICE Offsets<K> columns(std::int64_t column) const {
        const std::int64_t image = column / channels_, channel = column - image * channels_;
        Offsets<K> result{};
#pragma unroll
        for (int k = 0; k < K; ++k) result[k] = image * image_[k] + channel * channel_[k];
        return result;
    }
    HEADROOM_DEVICE Offsets<K> elements(Offsets<K> base, std::int64_t i) const {
        const Offsets<K> element = axes_.offsets(i);
#pragma unroll
        for (int k = 0; k < K; ++k) base[k] += element[k];
        return base;
    }

    /// An element of W neighbouring columns.
    template <class C, int W>
    HEADROOM_DEVICE Items<C, W> load(Block& block, int k, const Offsets<K>& at) const {
        if constexpr (W == 8) {
            return load_eight(block, data_[k], dtype_[k], at[k]);
        } else {
            return {{load_as<C>(data_[k], dtype_[k], at[k])}};
        }
    }
    /// The same for stores: array = beta array + values; with beta = 0, the array is not read.
    template <class C, int W>
    HEADROOM_DEVICE void store(Block& block, int k, const Offsets<K>& at, float beta, Items<C, W> values) const {
        if constexpr (W == 8) {
            if (beta != 0.0f) {
                const Floats<8> before = load_eight(block, data_[k], dtype_[k], at[k]);
#pragma unroll
                for (int i = 0; i < W; ++i) values[i] += beta * before[i];
            }
            store_eight(block, data_[k], dtype_[k], at[k], values);
        } else {
            accumulate_as<C>(data_[k], dtype_[k], at[k], beta, values[0]);
        }
    }

  private:
    StridedAxes<K> axes_;
    std::int64_t channels_;
    void* data_[K];
    Dtype dtype_[K];
    std::int64_t channel_[K], image_[K];
};

/// How a grid distributes columns: tiles along x, parts of the elements along y.
struct ColumnGrid {
    unsigned across = 1;
    std::int64_t columns = 0, elements = 0, parts = 1;
};

/// The work of one thread: the W columns from `column` on, elements first, first + step, ... before end.
struct ColumnThread {
    HEADROOM_DEVICE ColumnThread(const Block& block, const ColumnGrid& grid, int width)
        : side(block.thread() % grid.across),
          depth(block.thread() / grid.across),
          column((std::int64_t{block.x()} * grid.across + side) * width),
          exists(column < grid.columns),
          first(grid.elements * block.y() / grid.parts + depth),
          end(exists ? grid.elements * (block.y() + 1) / grid.parts : 0),
          step(block.threads() / grid.across) {}

    unsigned side, depth;
    std::int64_t column;
    bool exists;
    std::int64_t first, end;
    unsigned step;
};

/// Joins the values of a group's threads for its W columns, in an order fixed by their number; the threads of depth 0
/// get the result.
template <int W, class Value>
HEADROOM_DEVICE void join_depths(Block& block, const ColumnThread& at, const ColumnGrid& grid, Value (&own)[W]) {
    const auto shared = block.shared<Value>(ColumnTile::kThreads / 2 * W);
    for (unsigned half = at.step / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < W; ++k) {
            if (at.depth >= half && at.depth < 2 * half)
                shared[(k * half + at.depth - half) * grid.across + at.side] = own[k];
        }
        block.sync();
#pragma unroll
        for (int k = 0; k < W; ++k) {
            if (at.depth < half) own[k].join(shared[(k * half + at.depth) * grid.across + at.side]);
        }
        block.sync();
    }
}

/// Starts `Kernel<C, 8>` if all arrays allow groups of eight, else `Kernel<C, 1>`, with a grid of `parts` parts.
/// `Value` is the type that the kernel joins per column; void: nothing.
template <class C, template <class, int> class Kernel, class Value, int K, class... Args>
void launch_columns(CudaStream& stream, const ColumnTile& tile, const Columns& columns, std::int64_t parts,
                    const ColumnArrays<K>& arrays, const Args&... args) {
    ColumnGrid grid{tile.across, columns.count(), columns.elements, parts};
    const auto start = [&]<int W>(Kernel<C, W> kernel) {
        std::size_t shared = 0;
        if constexpr (!std::is_void_v<Value>) shared = shared_size<Value>(ColumnTile::kThreads / 2 * W);
        const LaunchShape shape{.x = blocks_for(columns.count(), std::int64_t{grid.across} * W),
                                .y = static_cast<std::uint32_t>(parts),
                                .threads = ColumnTile::kThreads,
                                .shared_bytes = shared};
        launch(stream, shape, kernel, arrays, grid, args...);
    };
    if constexpr (std::is_same_v<C, float>) {
        if (tile.width == 8 && arrays.takes_eights()) return start(Kernel<C, 8>{});
    }
    while (tile.across > 1 && grid.across < 32 && 2 * grid.across <= columns.count()) grid.across *= 2;
    start(Kernel<C, 1>{});
}

}  // namespace headroom::kernels::device
