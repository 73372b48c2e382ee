#pragma once
// Random numbers for the order of data: word i of a stream is a hash of (seed, stream, i). There is no state, so any
// thread can compute any word, and a resumed training computes the same ones. Not for values on a device (those come
// from Philox) and not for secrets.
//
//     data::RandomWords words(seed, /*stream=*/epoch);
//     int64_t first = words.below(0, 1000);  // uniform in [0, 1000), the same on every machine
//     int64_t other = words.below(1, 1000);
//     int64_t again = words.below(0, 1000);  // equals first
#include <cstdint>

namespace headroom::data {

/// The finaliser of SplitMix64 (Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014,
/// with Stafford's Mix13 constants): a bijection of 64-bit words in which every input bit moves every output bit.
constexpr std::uint64_t splitmix64_mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/// One stream of words; different (seed, stream) pairs give unrelated streams.
class RandomWords {
  public:
    constexpr RandomWords(std::uint64_t seed, std::uint64_t stream)
        : key_(splitmix64_mix(splitmix64_mix(seed + kGolden) + stream * kGolden)) {}

    /// Word `index`: output number `index` of SplitMix64, started at this stream's key.
    constexpr std::uint64_t word(std::uint64_t index) const { return splitmix64_mix(key_ + (index + 1) * kGolden); }

    /// Uniform in [0, bound), bound >= 1: the high half of word * bound. Probabilities differ by at most one part in
    /// 2^64 / bound.
    constexpr std::int64_t below(std::uint64_t index, std::int64_t bound) const {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::int64_t>((static_cast<Wide>(word(index)) * static_cast<std::uint64_t>(bound)) >> 64);
    }

  private:
    static constexpr std::uint64_t kGolden =
        0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd: the increment of SplitMix64
    std::uint64_t key_;
};

/// A sequence of random numbers for one sample.
class Draws {
  public:
    Draws(std::uint64_t seed, std::uint64_t draw) : words_(splitmix64_mix(seed ^ kSampleDomain), draw) {}

    /// Uniform in [low, high].
    double uniform(double low, double high) {
        return low + (high - low) * static_cast<double>(words_.word(next_++) >> 11) * 0x1p-53;
    }
    /// Uniform in [0, bound), bound >= 1.
    std::int64_t below(std::int64_t bound) { return words_.below(next_++, bound); }
    bool chance(double probability) { return uniform(0, 1) < probability; }

  private:
    static constexpr std::uint64_t kSampleDomain =
        0x696d616765730a0d;  // keeps these words apart from those of a sampler's order

    RandomWords words_;
    std::uint64_t next_ = 0;
};

}  // namespace headroom::data
