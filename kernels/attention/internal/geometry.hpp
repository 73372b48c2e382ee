#pragma once
// The sizes of an attention and what its causal mask hides, for CPU and CUDA.
//
//     const Geometry g = geometry_of(q, k, causal);
//     for (std::int64_t j = 0; j < g.visible(i); ++j) { ... }   // the keys that query i sees
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Keys per block on the CPU.
inline constexpr std::int64_t kKeyBlock = 64;

/// Values of a floating mask below this hide a key: next to them, lse has no digits left in f32.
inline constexpr double kHiddenBelow = -1e6;
inline constexpr const char* kLengthError = "attention: length";

/// Blocks of random words per query with this many keys: each query begins with its own block.
constexpr std::int64_t word_blocks(std::int64_t keys) { return (keys + 3) / 4; }

struct Geometry {
    std::int64_t batch, queries, keys, heads, key_heads, width;
    bool causal;
    std::int64_t limit = keys;  ///< keys from here on are hidden: fewer than `keys` in a shorter batch

    constexpr std::int64_t group() const { return heads / key_heads; }
    /// The number of keys that query i sees, from the first.
    constexpr std::int64_t visible(std::int64_t i) const {
        return causal ? within(i + 1 + keys - queries, limit) : limit;
    }
    /// The first query that sees key j; the number of queries if none does.
    constexpr std::int64_t first_seeing(std::int64_t j) const {
        return j >= limit ? queries : causal ? within(j - (keys - queries), queries) : 0;
    }
    /// The number of keys, rounded up to whole blocks.
    constexpr std::int64_t padded_keys() const { return (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock; }

  private:
    static constexpr std::int64_t within(std::int64_t i, std::int64_t most) { return i < 0 ? 0 : i < most ? i : most; }
};

inline Geometry geometry_of(const View& q, const View& k, bool causal) {
    return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), causal};
}

/// Scratch of the gradient on a GPU: the sum of dy * o for each query and head, in the compute type.
inline std::size_t delta_bytes(const Geometry& g, Dtype dtype) {
    return static_cast<std::size_t>(g.batch * g.heads * g.queries) * size_of(dtype == Dtype::f64 ? dtype : Dtype::f32);
}

}  // namespace headroom::kernels
