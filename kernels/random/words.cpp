#include <headroom/kernels/random/internal/words.hpp>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace headroom::kernels {

namespace {

#if defined(__AVX512F__)

/// Eight blocks, one in each 64-bit lane. Only the lower halves of lanes count until the end: the multiplication reads
/// no others, and what its results carry in theirs does no harm. Compilers that vectorise the portable loop spend as
/// much on shuffling halves as on the rounds.
void make_blocks(const RandomKey& key, std::uint64_t block, std::uint32_t* out) {
    const __m512i multiplier0 = _mm512_set1_epi64(0xd2511f53);
    const __m512i multiplier1 = _mm512_set1_epi64(0xcd9e8d57);
    __m512i c0 =
        _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(block)), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    __m512i c1 = _mm512_srli_epi64(c0, 32);
    __m512i c2 = _mm512_set1_epi64(static_cast<long long>(key.sequence));
    __m512i c3 = _mm512_srli_epi64(c2, 32);
    auto key0 = static_cast<std::uint32_t>(key.seed);
    auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const __m512i product0 = _mm512_mul_epu32(multiplier0, c0);
        const __m512i product1 = _mm512_mul_epu32(multiplier1, c2);
        constexpr int exclusive_or = 0x96;
        c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), c1, _mm512_set1_epi64(key0), exclusive_or);
        c1 = product1;
        c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), c3, _mm512_set1_epi64(key1), exclusive_or);
        c3 = product0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    const __m512i first = _mm512_mask_blend_epi32(0xaaaa, c0, _mm512_slli_epi64(c1, 32));
    const __m512i second = _mm512_mask_blend_epi32(0xaaaa, c2, _mm512_slli_epi64(c3, 32));
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    _mm512_store_si512(out, _mm512_permutex2var_epi64(first, low, second));
    _mm512_store_si512(out + 16, _mm512_permutex2var_epi64(first, high, second));
}

void make_run(const RandomKey& key, std::uint64_t block, std::int64_t blocks, std::uint32_t* out) {
    for (std::int64_t i = 0; i < blocks; i += 8) make_blocks(key, block + static_cast<std::uint64_t>(i), out + 4 * i);
}

#else

void make_run(const RandomKey& key, std::uint64_t block, std::int64_t blocks, std::uint32_t* out) {
    const RandomKey local = key;
#pragma omp simd
    for (std::int64_t i = 0; i < blocks; ++i) {
        const PhiloxBlock words = philox(local, block + static_cast<std::uint64_t>(i));
        out[4 * i] = words[0];
        out[4 * i + 1] = words[1];
        out[4 * i + 2] = words[2];
        out[4 * i + 3] = words[3];
    }
}

#endif

}  // namespace

const std::uint32_t* RandomWords::generate(const RandomKey& key, std::int64_t first, std::int64_t count) {
    const std::int64_t begin = first / 4;
    const std::int64_t blocks = (first + count + 3) / 4 - begin;
    make_run(key, static_cast<std::uint64_t>(begin), blocks, words_);
    return words_ + first % 4;
}

}  // namespace headroom::kernels
