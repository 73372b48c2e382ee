#pragma once
// Philox4x32-10, a counter-based random generator (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). Random words are a function of a key and a position, so nothing is stored and every word can be
// recomputed. Not for cryptography. This header is for single values; to fill arrays use `random.hpp`.
//
//     const RandomKey key = op_key(seed, counter);             // one per op outside of micro-batches
//     const RandomKey in = op_key(use_seed(seed, fnv1a("blocks.0.mlp"), use), micro_batch);  // inside one
//     const RandomKey init = path_key(seed, "blocks.0.up.w");  // one per parameter, whatever the order of construction
//     std::uint32_t word = philox(key, i / 4)[i % 4];          // the word of element i
#include <array>
#include <cstdint>
#include <string_view>

namespace headroom::kernels {

/// The purpose of the words: equal numbers in two domains give unrelated words.
enum class RandomDomain : std::uint8_t { op, initialisation, data, sampling };

/// Identifies an endless sequence of words. The two highest bits of `sequence` hold the domain.
struct RandomKey {
    std::uint64_t seed = 0;
    std::uint64_t sequence = 0;
    /// A number in device memory that kernels add to `sequence` (below 2^62), so that a graph of kernels draws new
    /// words at each launch. Null: 0. GPU kernels read it.
    const std::uint64_t* shift = nullptr;

    constexpr RandomKey shifted() const { return {seed, sequence + (shift ? *shift : 0), nullptr}; }

    friend constexpr bool operator==(const RandomKey&, const RandomKey&) = default;
};

constexpr RandomKey random_key(std::uint64_t seed, RandomDomain domain, std::uint64_t number) {
    return {seed, (static_cast<std::uint64_t>(domain) << 62) | (number & ~(3ull << 62)), nullptr};
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
constexpr std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return hash;
}

/// The key of the op that makes draw number `counter`.
constexpr RandomKey op_key(std::uint64_t seed, std::uint64_t counter) {
    return random_key(seed, RandomDomain::op, counter);
}

/// The finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014):
/// a bijection in which each bit of the result depends on all bits.
constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/// The seed for a module's draw number `use` in a micro-batch; `module`: fnv1a of its path.
constexpr std::uint64_t use_seed(std::uint64_t seed, std::uint64_t module, std::uint64_t use) {
    return mixed(mixed(mixed(seed) ^ module) + use);
}

/// The key for the initial values of the parameter at `path`.
constexpr RandomKey path_key(std::uint64_t seed, std::string_view path) {
    return random_key(seed, RandomDomain::initialisation, fnv1a(path));
}

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// The bare generator: four counter words and two key words give four random words.
[[gnu::always_inline]] constexpr PhiloxBlock philox_rounds(PhiloxBlock counter, std::uint32_t key0,
                                                           std::uint32_t key1) {
    std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = std::uint64_t{0xd2511f53u} * c0;
        const std::uint64_t product1 = std::uint64_t{0xcd9e8d57u} * c2;
        c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
        c1 = static_cast<std::uint32_t>(product1);
        c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
        c3 = static_cast<std::uint32_t>(product0);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return {c0, c1, c2, c3};
}

/// Words 4 block to 4 block + 3 of a sequence.
[[gnu::always_inline]] constexpr PhiloxBlock philox(const RandomKey& key, std::uint64_t block) {
    return philox_rounds({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                          static_cast<std::uint32_t>(key.sequence), static_cast<std::uint32_t>(key.sequence >> 32)},
                         static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32));
}

/// A number in [0, 1), a multiple of 2^-24.
[[gnu::always_inline]] constexpr float uniform_from(std::uint32_t word) {
    return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}

}  // namespace headroom::kernels
