#pragma once
// Generates runs of random words, many blocks at a time, for the random kernels.
//
//     RandomWords words;
//     const std::uint32_t* run = words.generate(key, first, count);  // run[i] belongs to element first + i
#include <cstdint>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::kernels {

/// A buffer for `kChunk` words; lives on the stack.
class RandomWords {
  public:
    /// The words of elements [first, first + count), count <= kChunk; valid until the next call. The whole blocks of
    /// these words are present, too, from element first / 4 * 4 on.
    const std::uint32_t* generate(const RandomKey& key, std::int64_t first, std::int64_t count);

  private:
    alignas(64) std::uint32_t words_[kChunk + 40];  // vectors of blocks are written whole
};

}  // namespace headroom::kernels
