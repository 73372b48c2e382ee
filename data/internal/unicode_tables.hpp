#pragma once
// What BERT's tokenizer does to each character, as sorted lists. Written by scripts/unicode-tables.
#include <cstdint>
#include <span>

namespace headroom::data {

struct CodePointRange {
    uint32_t first, last;
};

/// Every `stride`-th from first to last; the first becomes `to`, the others what is as far from them.
struct CodePointMapping {
    uint32_t first, last, stride, to;
};

/// Becomes several, 0 behind the last.
struct CodePointExpansion {
    uint32_t first;
    uint32_t to[3];
};

extern const std::span<const CodePointRange> removed_ranges;      // control characters and the like
extern const std::span<const CodePointRange> space_ranges;        // become a space
extern const std::span<const CodePointRange> ideograph_ranges;    // words of their own
extern const std::span<const CodePointRange> punctuation_ranges;  // words of their own
extern const std::span<const CodePointRange> mark_ranges;         // accents
extern const std::span<const CodePointMapping> plain_mappings;    // lower case, without accents
extern const std::span<const CodePointExpansion> plain_expansions;

}  // namespace headroom::data
