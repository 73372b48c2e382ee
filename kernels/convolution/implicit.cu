// Convolutions on a GPU: products whose operands are gathered from images as tiles of them are needed.
#include <headroom/kernels/convolution/internal/implicit.hpp>

#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/matmul/internal/tiles.cuh>
#include <headroom/kernels/pointwise/activations.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr std::int64_t kMostGroups = 1024;  // in the grid's y; then blocks go on to further ones
constexpr unsigned kThreads = 256;          // for elements that one thread sums
constexpr int kSumDepth = 128;  // of a sum before it is added to the sum of those before: a longer one would err more

/// Where an axis' three loops are.
struct Position {
    std::int64_t outer, middle, inner;
};

HEADROOM_DEVICE Position position_of(const ImplicitAxis& axis, std::int64_t index) {
    const std::int64_t rest = index / axis.inner;
    return {rest / axis.middle, rest % axis.middle, index % axis.inner};
}
HEADROOM_DEVICE void advance(const ImplicitAxis& axis, Position& at) {
    if (++at.inner < axis.inner) return;
    at.inner = 0;
    if (++at.middle < axis.middle) return;
    at.middle = 0, ++at.outer;
}

HEADROOM_DEVICE ImplicitPlace place_of(const ImplicitSteps& s, const Position& at) {
    return {s.start.offset + at.outer * s.outer.offset + at.middle * s.middle.offset + at.inner * s.inner.offset,
            s.start.y + at.outer * s.outer.y + at.middle * s.middle.y + at.inner * s.inner.y,
            s.start.x + at.outer * s.outer.x + at.middle * s.middle.x + at.inner * s.inner.x};
}
HEADROOM_DEVICE ImplicitPlace place_of(const ImplicitAxis& axis, const ImplicitSteps& steps, std::int64_t index) {
    return place_of(steps, position_of(axis, index));
}

template <class T>
HEADROOM_DEVICE T element(const ImplicitOperand& operand, const T* data, const ImplicitPlace& line,
                          const ImplicitPlace& depth) {
    const std::int64_t offset = line.offset + depth.offset;
    if (!operand.image) return data[offset];
    std::int64_t y = line.y + depth.y, x = line.x + depth.x;
    if (operand.y_divisor != 1 || operand.x_divisor != 1) {
        if (y % operand.y_divisor != 0 || x % operand.x_divisor != 0) return T{};
        y /= operand.y_divisor, x /= operand.x_divisor;
    }
    if (y < 0 || y >= operand.height || x < 0 || x >= operand.width) return T{};
    return data[offset + y * operand.row + x * operand.column];
}

/// Element (row, column) of a group is `sum`, whose type is that of the arithmetic.
template <class S>
HEADROOM_DEVICE void finish(const ImplicitProduct& p, S sum, std::int64_t group, std::int64_t row,
                            std::int64_t column) {
    const std::int64_t at = group * p.result_group + place_of(p.rows, p.result_row, row).offset +
                            place_of(p.columns, p.result_column, column).offset;
    if (p.beta != 0.0f) sum += static_cast<S>(p.beta) * load_as<S>(p.result, p.result_dtype, at);
    if (p.has_bias) sum += load_as<S>(p.bias, p.bias_dtype, (group * p.columns.size() + column) * p.bias_step);
    store_as<S>(p.result, p.result_dtype, at, p.relu ? Relu{}(sum) : sum);
}

/// The same, or the sum of a part, to be added to the others' by `AddParts`.
template <class S>
HEADROOM_DEVICE void write(const ImplicitProduct& p, S sum, std::int64_t group, std::int64_t row, std::int64_t column,
                           std::int64_t part, std::byte* scratch) {
    if (p.parts == 1) return finish(p, sum, group, row, column);
    const std::int64_t element = (group * p.rows.size() + row) * p.columns.size() + column;
    reinterpret_cast<S*>(scratch)[part * p.elements() + element] = sum;
}

/// A block sums a tile of a group's product over one part of the depth. The places of its rows, its columns and of the
/// depth that it works on are in shared memory: each is found once, by divisions, and used 64 times.
template <class T>
struct Implicit {
    using Sums = TileSums<T>;
    static constexpr unsigned kMaxThreads = Sums::kThreads;
    static constexpr int kCapability = kTensorCapability<T>;

    HEADROOM_DEVICE void operator()(Block& block, const ImplicitProduct p, std::uint32_t column_tiles,
                                    std::byte* scratch) const {
        Sums sums(block);
        const Shared<ImplicitPlace> rows = block.shared<ImplicitPlace>(kTile),
                                    columns = block.shared<ImplicitPlace>(kTile),
                                    left = block.shared<ImplicitPlace>(Sums::kDepth),
                                    right = block.shared<ImplicitPlace>(Sums::kDepth);
        const std::int64_t row = std::int64_t{block.x() / column_tiles} * kTile;
        const std::int64_t column = std::int64_t{block.x() % column_tiles} * kTile;
        const std::int64_t m = p.rows.size(), n = p.columns.size();
        fill_places(block, rows, p.rows, p.left.line, row, kTile);
        fill_places(block, columns, p.columns, p.right.line, column, kTile);
        const std::int64_t begin = block.z() * p.part, end = std::min(p.depth.size(), begin + p.part);
        for (std::int64_t group = block.y(); group < p.groups; group += block.grid_y()) {
            sums.clear(block);
            for (std::int64_t at = begin; at < end; at += Sums::kDepth) {
                fill_places(block, left, p.depth, p.left.depth, at, Sums::kDepth);
                fill_places(block, right, p.depth, p.right.depth, at, Sums::kDepth);
                block.sync();
                load(block, sums.left, p.left, group, rows, m - row, left, end - at);
                load(block, sums.right, p.right, group, columns, n - column, right, end - at);
                block.sync();
                sums.add(block);  // what it reads is overwritten behind the next iteration's first barrier
            }
            sums.for_each(block, p.along_row, [&](int i, int j, auto sum) {
                if (row + i < m && column + j < n) write(p, sum, group, row + i, column + j, block.z(), scratch);
            });
        }
    }

  private:
    HEADROOM_DEVICE static void fill_places(Block& block, Shared<ImplicitPlace> places, const ImplicitAxis& axis,
                                            const ImplicitSteps& steps, std::int64_t first, int count) {
        const auto i = static_cast<int>(block.thread());
        if (i < count) places[i] = place_of(axis, steps, first + i);
    }

    /// Zeros beyond `lines` and `depth`. Neighbouring threads read along the axis that lies side by side.
    HEADROOM_DEVICE static void load(Block& block, Shared<T> tile, const ImplicitOperand& operand, std::int64_t group,
                                     Shared<ImplicitPlace> line, std::int64_t lines, Shared<ImplicitPlace> step,
                                     std::int64_t depth) {
        constexpr int kDepth = Sums::kDepth;
        const T* data = reinterpret_cast<const T*>(operand.data) + group * operand.group;
        for (int e = static_cast<int>(block.thread()); e < kTile * kDepth; e += static_cast<int>(block.threads())) {
            const int i = operand.along_depth ? e / kDepth : e % kTile;
            const int d = operand.along_depth ? e % kDepth : e / kTile;
            T value{};
            if (i < lines && d < depth) value = element<T>(operand, data, line[i], step[d]);
            tile[i * Sums::kRowPitch + d * Sums::kDepthPitch] = value;
        }
    }
};

/// A thread sums an element over one part of the depth.
template <class T>
struct Direct {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const ImplicitProduct p, std::byte* scratch) const {
        using Sum = typename TileSums<T>::Sum;
        const std::int64_t m = p.rows.size(), n = p.columns.size();
        for (std::int64_t i = block.global_thread(); i < p.elements() * p.parts; i += block.global_threads()) {
            // Neighbours are columns of all groups: with one channel to a group, channels side by side.
            const std::int64_t column = i % n, group = i / n % p.groups, row = i / n / p.groups % m;
            const std::int64_t part = i / p.elements(), begin = part * p.part;
            const std::int64_t end = std::min(p.depth.size(), begin + p.part);
            const T* left = reinterpret_cast<const T*>(p.left.data) + group * p.left.group;
            const T* right = reinterpret_cast<const T*>(p.right.data) + group * p.right.group;
            const ImplicitPlace left_line = place_of(p.rows, p.left.line, row);
            const ImplicitPlace right_line = place_of(p.columns, p.right.line, column);
            Sum all{};
            if (begin < end) {
                Position at = position_of(p.depth, begin);
                for (std::int64_t left_over = end - begin; left_over > 0; left_over -= kSumDepth) {
                    const int count = static_cast<int>(std::min<std::int64_t>(left_over, kSumDepth));
                    Sum sum{};
                    for (int d = 0; d < count; ++d, advance(p.depth, at)) {
                        const T l = element<T>(p.left, left, left_line, place_of(p.left.depth, at));
                        const T r = element<T>(p.right, right, right_line, place_of(p.right.depth, at));
                        sum += from_element<Sum>(l) * from_element<Sum>(r);
                    }
                    all += sum;
                }
            }
            write(p, all, group, row, column, part, scratch);
        }
    }
};

/// Sums of parts, in order.
template <class S>
struct AddParts {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const ImplicitProduct p, const std::byte* scratch) const {
        const S* parts = reinterpret_cast<const S*>(scratch);
        const std::int64_t m = p.rows.size(), n = p.columns.size();
        for (std::int64_t i = block.global_thread(); i < p.elements(); i += block.global_threads()) {
            S sum{};
            for (std::int64_t part = 0; part < p.parts; ++part) sum += parts[part * p.elements() + i];
            finish(p, sum, i / n / m, i / n % m, i % n);
        }
    }
};

template <class T>
void multiply(CudaStream& stream, const ImplicitProduct& p, std::byte* scratch) {
    using Sum = typename TileSums<T>::Sum;
    if (p.tiled) {
        const std::uint32_t column_tiles = blocks_for(p.columns.size(), kTile);
        const LaunchShape shape{.x = blocks_for(p.rows.size(), kTile) * column_tiles,
                                .y = static_cast<std::uint32_t>(std::min(p.groups, kMostGroups)),
                                .z = static_cast<std::uint32_t>(p.parts),
                                .threads = TileSums<T>::kThreads,
                                .shared_bytes = TileSums<T>::kSharedBytes + 2 * shared_size<ImplicitPlace>(kTile) +
                                                2 * shared_size<ImplicitPlace>(TileSums<T>::kDepth)};
        launch(stream, shape, Implicit<T>{}, p, column_tiles, scratch);
    } else {
        const LaunchShape shape{
            .x = grid_for(stream, p.elements() * p.parts, kThreads), .loops = true, .threads = kThreads};
        launch(stream, shape, Direct<T>{}, p, scratch);
    }
    if (p.parts == 1) return;
    const LaunchShape shape{.x = grid_for(stream, p.elements(), kThreads), .loops = true, .threads = kThreads};
    launch(stream, shape, AddParts<Sum>{}, p, scratch);
}

}  // namespace

void multiply_implicitly(CudaStream& stream, const ImplicitProduct& product, std::byte* scratch) {
    switch (product.operand) {
        case Dtype::f64:
            return multiply<double>(stream, product, scratch);
        case Dtype::f16:
            return multiply<f16>(stream, product, scratch);
        case Dtype::bf16:
            return multiply<bf16>(stream, product, scratch);
        default:
            return multiply<float>(stream, product, scratch);
    }
}

}  // namespace headroom::kernels
