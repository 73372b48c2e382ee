#pragma once
// An attention whose q, k and v are slices of one tensor, as AttentionPacked's are, without data: for tests of what is
// decided from shapes.
//
//     const PackedAttention attention{.batch = 2, .queries = 1024, .heads = 12, .key_heads = 4};
//     const auto plan = plan_sdpa(attention.gradient());
#include <cmath>
#include <cstdint>

#include <headroom/kernels/attention/attention.hpp>

namespace headroom::kernels::test {

struct PackedAttention {
    Dtype dtype = Dtype::bf16;
    std::int64_t batch = 1, queries = 64;
    std::int64_t keys = 0;  ///< 0: as many as queries
    std::int64_t heads = 1, key_heads = 1, width = 64;
    std::int64_t gap = 0;  ///< between rows, in elements
    bool causal = true;
    double scale = 0.125;
    AttentionMask mask{};
    AttentionDropout dropout{};

    kernels::Attention forward() const {
        const std::int64_t s = keys == 0 ? queries : keys;
        return {
            part(queries, heads), part(s, key_heads), part(s, key_heads), dense(), lse(), causal, scale, mask, dropout};
    }
    kernels::AttentionGradient gradient() const {
        const kernels::Attention f = forward();
        return {f.q, f.k, f.v, f.o, f.lse, dense(), f.q, f.k, f.v, 0, 0, 0, causal, scale, mask, dropout};
    }

  private:
    View part(std::int64_t length, std::int64_t count) const {
        const std::int64_t row = (heads + 2 * key_heads) * width + gap;
        return {nullptr, dtype, {batch, length, count, width}, {length * row, row, width, 1}};
    }
    View dense() const { return contiguous_view(nullptr, dtype, {batch, queries, heads, width}); }
    View lse() const { return contiguous_view(nullptr, Dtype::f32, {batch, heads, queries}); }
};

}  // namespace headroom::kernels::test
