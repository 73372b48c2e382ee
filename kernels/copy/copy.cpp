#include <headroom/kernels/copy/copy.hpp>

#include <algorithm>
#include <cstring>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/pointwise/internal/elementwise.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kTile = 8;

/// Sizes of a tile and strides in elements: of rows and of elements in a row.
struct Tile {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t from_row;
    std::int64_t from_element;
    std::int64_t to_row;
    std::int64_t to_element;
};

template <class Element>
void copy_tile(const Element* from, Element* to, const Tile& tile) {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        for (std::int64_t j = 0; j < tile.columns; ++j) {
            to[i * tile.to_row + j * tile.to_element] = from[i * tile.from_row + j * tile.from_element];
        }
    }
}

/// Neighbouring rows of the source lie closer together than the elements of one.
bool is_transposed(const Walk& walk) {
    return walk.plane_size() > 1 && walk.row_stride(1) != 0 && std::abs(walk.row_stride(1)) < std::abs(walk.stride(1));
}

/// Planes of rows, in strips of tiles.
template <class Element>
void copy_transposed(const CpuStream& stream, const Walk& walk, std::int64_t elements) {
    const std::int64_t height = walk.plane_size();
    const std::int64_t strips = (height + kTile - 1) / kTile;
    parallel_for(stream, walk.rows() / height * strips, elements, [&](std::int64_t i) {
        const std::int64_t top = i % strips * kTile;
        const Cursor cursor(walk, i / strips * height + top);
        for (std::int64_t left = 0; left < walk.row_size(); left += kTile) {
            copy_tile(reinterpret_cast<const Element*>(cursor.at(1, left)),
                      reinterpret_cast<Element*>(cursor.at(0, left)),
                      {std::min(kTile, height - top), std::min(kTile, walk.row_size() - left), walk.row_stride(1),
                       walk.stride(1), walk.row_stride(0), walk.stride(0)});
        }
    });
}

/// Elements of one size are moved as they are, whatever they mean.
template <class Element>
void copy_bits(const CpuStream& stream, const View& x, const View& y) {
    const Walk walk({&y, &x});
    if (is_transposed(walk)) return copy_transposed<Element>(stream, walk, y.numel());
    const Tile run{1, 0, 0, walk.stride(1), 0, walk.stride(0)};
    for_each_run(stream, walk, kShare, y.numel(), [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
        const auto* from = reinterpret_cast<const Element*>(cursor.at(1, first));
        auto* to = reinterpret_cast<Element*>(cursor.at(0, first));
        if (run.from_element == 1 && run.to_element == 1) {
            std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Element));
        } else if (run.from_element == 0 && run.to_element == 1) {
            std::fill_n(to, count, *from);
        } else {
            Tile tile = run;
            tile.columns = count;
            copy_tile(from, to, tile);
        }
    });
}

/// By way of T, which holds every value of x.
template <class T>
void convert(const CpuStream& stream, const View& x, const View& y) {
    const Walk walk({&y, &x});
    for_each_run(stream, walk, kChunk, 2 * y.numel(),
                 [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
                     T buffer[kChunk];
                     std::byte* target = cursor.at(0, first);
                     T* place = borrow_target<T>(target, y.dtype, walk.stride(0), count, buffer);
                     if (place != buffer) return load(cursor.at(1, first), x.dtype, walk.stride(1), count, place);
                     const T* values = borrow<T>(cursor.at(1, first), x.dtype, walk.stride(1), count, buffer);
                     store(values, count, target, y.dtype, walk.stride(0));
                 });
}

template <class T>
struct Scales {
    T alpha;
    T beta;
};

template <class T>
void scale_loop(const void* scales, const T* const* in, T* out, std::int64_t count) {
    const T alpha = static_cast<const Scales<T>*>(scales)->alpha;
    const T* x = in[0];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) out[i] = alpha * x[i];
}

template <class T>
void add_loop(const void* scales, const T* const* in, T* out, std::int64_t count) {
    const Scales<T> by = *static_cast<const Scales<T>*>(scales);
    const T* x = in[0];
    const T* y = in[1];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) out[i] = by.alpha * x[i] + by.beta * y[i];
}

template <class T>
void accumulate_as(const CpuStream& stream, const View& x, const View& y, float alpha, float beta) {
    const Scales<T> scales{static_cast<T>(alpha), static_cast<T>(beta)};
    if (beta == 0.0f) {
        run_elementwise<T>(stream, {&scale_loop<T>, &scales, 1}, {&x}, y, 0.0f);
    } else {
        run_elementwise<T>(stream, {&add_loop<T>, &scales, 1}, {&x, &y}, y, 0.0f);
    }
}

}  // namespace

void copy(CpuStream& stream, const View& x, const View& y) {
    if (y.numel() == 0) return;
    if (x.dtype == y.dtype) {
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
    if (x.dtype == Dtype::f64) return convert<double>(stream, x, y);
    if (is_floating(x.dtype)) return convert<float>(stream, x, y);
    convert<std::int64_t>(stream, x, y);
}

void accumulate(CpuStream& stream, const View& x, const View& y, float alpha, float beta) {
    switch (compute_dtype({&x, &y})) {
        case Dtype::f64:
            return accumulate_as<double>(stream, x, y, alpha, beta);
        case Dtype::f32:
            return accumulate_as<float>(stream, x, y, alpha, beta);
        default:
            return accumulate_as<std::int64_t>(stream, x, y, alpha, beta);
    }
}

}  // namespace headroom::kernels
