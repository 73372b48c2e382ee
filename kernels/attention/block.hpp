#pragma once
// What attention's forward and gradient share: geometry, and one (batch, key head)'s keys and values in dense blocks.
// Internal to kernels/attention.
//
//     Geometry g = geometry_of(q, k, causal);
//     std::int64_t seen = g.visible(query);      // keys that this query sees
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/pack.hpp>
#include <headroom/kernels/matmul/tile.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Keys per block: a block of transposed keys, one of values and one of scores stay in the first-level cache.
inline constexpr std::int64_t kKeyBlock = 64;

struct Geometry {
    std::int64_t batch, queries, keys, heads, key_heads, width;
    bool causal;

    std::int64_t group() const { return heads / key_heads; }
    /// Keys that query i sees: those before this number.
    std::int64_t visible(std::int64_t i) const {
        return causal ? std::clamp<std::int64_t>(i + 1 + keys - queries, 0, keys) : keys;
    }
    std::int64_t key_blocks() const { return (keys + kKeyBlock - 1) / kKeyBlock; }
    /// Keys, rounded up to whole blocks.
    std::int64_t padded_keys() const { return key_blocks() * kKeyBlock; }
};

inline Geometry geometry_of(const View& q, const View& k, bool causal) {
    return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), causal};
}

/// Address of x[batch, position, head, 0].
inline std::byte* row_of(const View& x, std::int64_t batch, std::int64_t position, std::int64_t head) {
    return x.at(batch * x.stride(0) + position * x.stride(1) + head * x.stride(2));
}

/// Rows [first, first + count) of one head, dense: out[i * out_row + d]; columns from the width to out_row are zero.
template <class T>
void pack_rows(const View& x, std::int64_t batch, std::int64_t first, std::int64_t count, std::int64_t head, T* out,
               std::int64_t out_row) {
    pack(row_of(x, batch, first, head), x.dtype, x.stride(1), x.stride(3), count, x.size(3), out, out_row, out_row);
}

/// All positions of one head, transposed in blocks: out[block * width * kKeyBlock + d * kKeyBlock + j] for position
/// block * kKeyBlock + j; zero beyond the last position.
template <class T>
void pack_transposed_blocks(const View& x, std::int64_t batch, std::int64_t head, T* out) {
    const std::int64_t keys = x.size(1), width = x.size(3);
    for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
        const std::int64_t count = std::min(kKeyBlock, keys - first);
        pack(row_of(x, batch, first, head), x.dtype, x.stride(3), x.stride(1), width, count, out + first * width,
             kKeyBlock, kKeyBlock);
    }
}

/// target = beta * target + values, for one row of a gradient.
template <class T>
void accumulate_row(const T* values, const View& target, std::int64_t batch, std::int64_t position, std::int64_t head,
                    T beta, T* buffer) {
    const std::int64_t width = target.size(3), stride = target.stride(3);
    std::byte* row = row_of(target, batch, position, head);
    if (beta != 0) {
        load(row, target.dtype, stride, width, buffer);
        for (std::int64_t d = 0; d < width; ++d) buffer[d] = beta * buffer[d] + values[d];
        values = buffer;
    }
    store(values, width, row, target.dtype, stride);
}

}  // namespace headroom::kernels
