#pragma once
// Masks and dropout of scores: the formulas that all devices share, and the work on a block on the CPU.
//
//     const Masking<float> masking(attention, batch, head);
//     if (masking.adds()) masking.add(block, scale, scores);             // scores = scale * scores + mask
//     if (masking.drops()) masking.drop(block, scores);                  // of the same block, as probabilities
#include <algorithm>
#include <cstdint>
#include <limits>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/block.hpp>
#include <headroom/kernels/attention/internal/geometry.hpp>
#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/dropout/internal/threshold.hpp>
#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/random/internal/words.hpp>

namespace headroom::kernels {

/// `g` with its limit set to the length of this batch, if lengths are given.
inline Geometry limited(Geometry g, const AttentionMask& mask, std::int64_t batch) {
    if (mask.lengths.rank() != 0) g.limit = Indices(mask.lengths)[batch];
    return g;
}

/// Errors: ShapeError for a length outside [0, S].
inline void check_lengths(const AttentionMask& mask, const Geometry& g) {
    if (mask.lengths.rank() != 0) Indices(mask.lengths).check(kLengthError, g.keys + 1);
}

/// The masks and the dropout of one head of one batch.
template <class T>
class Masking {
  public:
    /// `A`: Attention or AttentionGradient.
    template <class A>
    Masking(const A& attention, std::int64_t batch, std::int64_t head)
        : values_(attention.mask.values),
          first_(values_.rank() == 0 ? nullptr : values_.at(batch * values_.stride(0) + head * values_.stride(1))),
          dropout_(attention.dropout),
          threshold_(drop_threshold(dropout_.p)),
          kept_(kept_scale<T>(dropout_.p)),
          first_row_((batch * attention.q.size(2) + head) * attention.q.size(1)),
          row_words_(4 * word_blocks(attention.k.size(1))) {}

    bool adds() const { return first_ != nullptr; }
    bool drops() const { return dropout_.p != 0; }

    /// scores = scale * scores + mask, minus infinity where the mask hides the key.
    void add(const Block& block, T scale, T* scores) const {
        constexpr T hidden = -std::numeric_limits<T>::infinity();
        const auto size = static_cast<std::int64_t>(size_of(values_.dtype));
        for (std::int64_t i = 0; i < block.queries; ++i) {
            const std::int64_t seen = std::max<std::int64_t>(0, block.seen(i));
            const std::int64_t offset =
                (block.first_query + i) * values_.stride(2) + block.first_key * values_.stride(3);
            T mask[kKeyBlock];
            load(first_ + offset * size, values_.dtype, values_.stride(3), seen, mask);
            T* row = scores + i * kKeyBlock;
            if (values_.dtype == Dtype::boolean) {
                for (std::int64_t j = 0; j < seen; ++j) row[j] = mask[j] != 0 ? scale * row[j] : hidden;
            } else {
                for (std::int64_t j = 0; j < seen; ++j)
                    row[j] = mask[j] < T(kHiddenBelow) ? hidden : scale * row[j] + mask[j];
            }
        }
    }

    /// The words of query `i` of the block: one per key, padded to a whole vector.
    const std::uint32_t* words(const Block& block, std::int64_t i, RandomWords& generator) const {
        const std::int64_t first = (first_row_ + block.first_query + i) * row_words_ + block.first_key;
        return generator.generate(dropout_.key, first, padded<T>(block.keys));
    }
    /// The factor of a probability.
    T factor(std::uint32_t word) const { return word >= threshold_ ? kept_ : T{0}; }

    /// rows *= factors.
    void drop(const Block& block, T* rows) const {
        for (std::int64_t i = 0; i < block.queries; ++i) {
            RandomWords generator;
            const std::uint32_t* word = words(block, i, generator);
            T* row = rows + i * kKeyBlock;
            for (std::int64_t j = 0; j < block.keys; ++j) row[j] *= factor(word[j]);
        }
    }

  private:
    const View& values_;
    const std::byte* first_;
    const AttentionDropout& dropout_;
    std::uint32_t threshold_;
    T kept_;
    std::int64_t first_row_;
    std::int64_t row_words_;  ///< per query
};

}  // namespace headroom::kernels
