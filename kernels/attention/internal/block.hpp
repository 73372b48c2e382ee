#pragma once
// The common parts of attention's forward and gradient: dense copies of one head's rows, and block products that skip
// what the causal mask hides.
//
//     const Geometry g = geometry_of(q, k, causal);
//     const Block block{g, first_query, 64, first_key, 64};
//     block.scores(queries, row, keys_transposed, scores);   // only the tiles that some query sees
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/attention/internal/geometry.hpp>
#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/internal/pack.hpp>
#include <headroom/kernels/matmul/internal/tile.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Queries per block: small enough that the scores, keys and values of a product share the nearest caches.
inline constexpr std::int64_t kQueryBlock = 64;

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

/// 0, 1, 2, ...; compared with the number of visible keys, they give a mask.
template <class T>
struct LaneNumbers {
    alignas(kVectorBytes) T values[kLanes<T>];
    constexpr LaneNumbers() : values{} {
        for (std::int64_t l = 0; l < kLanes<T>; ++l) values[l] = static_cast<T>(l);
    }
};
template <class T>
inline constexpr LaneNumbers<T> kLaneNumbers;

/// `queries` queries from `first_query` on against `keys` keys from `first_key` on; the last query sees all of these
/// keys. Score matrices have rows of kKeyBlock. Where they serve as operands, hidden scores are zero up to the padded
/// number of keys.
struct Block {
    const Geometry& g;
    std::int64_t first_query, queries, first_key, keys;

    /// Keys of this block that its query i sees; may be negative.
    std::int64_t seen(std::int64_t i) const { return std::min(keys, g.visible(first_query + i) - first_key); }
    /// The same without the limit at `keys`: if causal, each query sees one more key than the last.
    std::int64_t unclamped_seen(std::int64_t i) const {
        return g.causal ? first_query + i + 1 + g.keys - g.queries - first_key : keys;
    }
    bool masked() const { return seen(0) < keys; }
    /// Columns that `scores` computes for query i: those that its whole group of rows sees, in whole vectors.
    template <class T>
    std::int64_t columns(std::int64_t i) const {
        const std::int64_t last = std::min(queries - 1, i / kScoreRows * kScoreRows + kScoreRows - 1);
        return padded<T>(std::max<std::int64_t>(0, seen(masked() ? last : queries - 1)));
    }

    /// out[i, j] = x[i] . y[j], where y comes transposed: y[d * kKeyBlock + j].
    template <class T>
    void scores(const T* x, std::int64_t x_row, const T* y, T* out) const {
        const std::int64_t step = masked() ? kScoreRows : queries;
        for (std::int64_t i = 0; i < queries; i += step) {
            const std::int64_t rows = std::min(step, queries - i);
            tile_product({rows, columns<T>(i), g.width}, x + i * x_row, x_row, 1, y, kKeyBlock, out + i * kKeyBlock,
                         kKeyBlock, false);
        }
    }

    /// out[i] (+)= the sum over j of s[i, j] * y[j]: one row per query. Rows of y are `row` apart and `row` wide.
    template <class T>
    void per_query(const T* s, const T* y, std::int64_t row, T* out, std::int64_t out_row, bool accumulate) const {
        const std::int64_t step = masked() ? kRows : queries;
        for (std::int64_t i = 0; i < queries; i += step) {
            const std::int64_t rows = std::min(step, queries - i);
            const std::int64_t depth = std::max<std::int64_t>(0, seen(i + rows - 1));
            tile_product({rows, row, depth}, s + i * kKeyBlock, kKeyBlock, 1, y, row, out + i * out_row, out_row,
                         accumulate);
        }
    }

    /// out[j] (+)= the sum over i of s[i, j] * x[i]: one row per key.
    template <class T>
    void per_key(const T* s, const T* x, std::int64_t row, T* out, std::int64_t out_row, bool accumulate) const {
        const std::int64_t step = masked() ? kRows : keys;
        for (std::int64_t j = 0; j < keys; j += step) {
            const std::int64_t skip = std::clamp<std::int64_t>(g.first_seeing(first_key + j) - first_query, 0, queries);
            tile_product({std::min(step, keys - j), row, queries - skip}, s + skip * kKeyBlock + j, 1, kKeyBlock,
                         x + skip * row, row, out + j * out_row, out_row, accumulate);
        }
    }

    static constexpr std::int64_t kScoreRows = 16;  // hidden scores are skipped in whole vectors
    static constexpr std::int64_t kRows = 12;       // rows of registers
};

}  // namespace headroom::kernels
