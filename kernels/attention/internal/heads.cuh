#pragma once
// Access to q, k, v, o and their gradients in CUDA kernels: rows of heads, in vectors of 16 bytes if the layout allows
// it, else by elements.
//
//     const HeadView q(gradient.q);                                          // host
//     const Vector<f16, 8> x = load_vector<f16>(block, q, q.row(b, t, h), column, width);   // kernel
#include <cstdint>
#include <type_traits>

#include <headroom/kernels/attention/internal/geometry.hpp>
#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/dispatch.hpp>

namespace headroom::kernels::attention_device {

using namespace device;

/// x[batch, position, head, column]. `wide`: each eight columns are aligned to 16 bytes, and the width is a multiple of
/// eight. Null data: a result that is not wanted.
struct HeadView {
    std::byte* data = nullptr;
    std::int64_t batch = 0, position = 0, head = 0, column = 0;  // strides
    Dtype dtype = Dtype::f32;
    bool wide = false;

    explicit HeadView(const View& x) {
        if (x.data == nullptr) return;
        data = x.at(0);
        batch = x.stride(0), position = x.stride(1), head = x.stride(2), column = x.stride(3);
        dtype = x.dtype;
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        wide = column == 1 && x.size(3) % 8 == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
        for (int axis = 0; axis < 3; ++axis) wide = wide && (x.size(axis) == 1 || x.stride(axis) * size % 16 == 0);
    }
    HEADROOM_DEVICE std::int64_t row(std::int64_t b, std::int64_t t, std::int64_t h) const {
        return b * batch + t * position + h * head;
    }
    template <class T>
    HEADROOM_DEVICE T* at(std::int64_t offset) const {
        return reinterpret_cast<T*>(data) + offset;
    }
};

/// lse or delta: x[batch, head, position], in the compute type.
template <class T>
struct SumView {
    T* data = nullptr;
    std::int64_t batch = 0, head = 0, position = 0;

    explicit SumView(const View& x) {
        if (x.data != nullptr) *this = SumView(x.as<T>(), x.stride(0), x.stride(1), x.stride(2));
    }
    SumView(T* p, std::int64_t b, std::int64_t h, std::int64_t t) : data(p), batch(b), head(h), position(t) {}
    HEADROOM_DEVICE T& at(std::int64_t b, std::int64_t h, std::int64_t t) const {
        return data[b * batch + h * head + t * position];
    }
};

/// The 16 bytes of T from `column` on in the row at this offset; zero beyond the width.
template <class T>
HEADROOM_DEVICE Vector<T, kWide<T>> load_vector(Block& block, const HeadView& x, std::int64_t row, int column,
                                                int width) {
    Vector<T, kWide<T>> values{};
    if (x.wide) {
        if (column < width) values = block.load<kWide<T>>(x.at<const T>(row + column));
    } else {
#pragma unroll
        for (int i = 0; i < kWide<T>; ++i)
            if (column + i < width) values[i] = *x.at<const T>(row + (column + i) * x.column);
    }
    return values;
}

/// target = beta * target + value
template <class T, class Value>
HEADROOM_DEVICE void update(T* target, float beta, Value value) {
    if (beta != 0.0f) value += static_cast<Value>(beta) * from_element<Value>(*target);
    *target = to_element<T>(value);
}

/// The same for eight columns of a row of T.
template <class T>
HEADROOM_DEVICE void update_eight(Block& block, const HeadView& x, std::int64_t row, int column, int width, float beta,
                                  Floats<8> values) {
    if (x.wide) {
        T* const target = x.at<T>(row + column);
        if (column >= width) return;
        if (beta != 0.0f) {
            const Floats<8> before = block.load_floats<8>(static_cast<const T*>(target));
#pragma unroll
            for (int i = 0; i < 8; ++i) values[i] += beta * before[i];
        }
        block.store_floats(target, values);
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (column + i < width) update(x.at<T>(row + (column + i) * x.column), beta, values[i]);
    }
}

/// One block of rows of one head.
struct HeadBlock {
    std::int64_t batch, head, first;
};

/// Assigns the grid along x: all blocks of `size` rows of a head, then the next head.
HEADROOM_DEVICE HeadBlock block_of_head(const Block& block, std::int64_t rows, int size, std::int64_t heads) {
    const std::uint32_t blocks = blocks_for(rows, size), head = block.x() / blocks;
    return {head / static_cast<std::uint32_t>(heads), head % static_cast<std::uint32_t>(heads),
            std::int64_t{block.x() % blocks} * size};
}
/// Last rows first, for queries: under a causal mask these see the most keys, so they should not start last.
HEADROOM_DEVICE HeadBlock block_from_the_end(const Block& block, std::int64_t rows, int size, std::int64_t heads) {
    HeadBlock at = block_of_head(block, rows, size, heads);
    at.first = (std::int64_t{blocks_for(rows, size)} - 1) * size - at.first;
    return at;
}

inline std::uint32_t head_blocks(std::int64_t rows, int size, std::int64_t batch_heads) {
    return static_cast<std::uint32_t>(blocks_for(rows, size) * batch_heads);
}

inline constexpr double kLog2E = 1.4426950408889634;  // exponentials are base 2, as GPUs compute them

}  // namespace headroom::kernels::attention_device
