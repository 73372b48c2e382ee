#pragma once
// Elements as unsigned numbers of the same order: floats by sign and magnitude, NaN largest, -0 equal to 0.
//
//     const std::uint64_t key = sort_key(x.data, x.dtype, offset, descending);
#include <bit>
#include <cstdint>

#include <headroom/kernels/dtype.hpp>

namespace headroom::kernels {

/// The key's width in bits: 16, 32 or 64.
constexpr int sort_key_bits(Dtype dtype) { return size_of(dtype) == 8 ? 64 : size_of(dtype) == 4 ? 32 : 16; }

/// The key of a float's bits; `infinity` has the bits of +infinity.
template <class Bits>
constexpr Bits ordered_bits(Bits bits, Bits infinity) {
    constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
    if (magnitude > infinity) return static_cast<Bits>(~Bits{0});
    return static_cast<Bits>(bits == magnitude || magnitude == 0 ? magnitude | sign : ~bits);
}

/// The key of element `offset` of an array; smaller keys come first.
constexpr std::uint64_t sort_key(const void* data, Dtype dtype, std::int64_t offset, bool descending) {
    std::uint64_t key = 0;
    switch (dtype) {
        case Dtype::f32:
            key = ordered_bits(static_cast<const std::uint32_t*>(data)[offset], 0x7f800000u);
            break;
        case Dtype::f16:
            key = ordered_bits(static_cast<const std::uint16_t*>(data)[offset], std::uint16_t{0x7c00});
            break;
        case Dtype::bf16:
            key = ordered_bits(static_cast<const std::uint16_t*>(data)[offset], std::uint16_t{0x7f80});
            break;
        case Dtype::f64:
            key = ordered_bits(static_cast<const std::uint64_t*>(data)[offset], std::uint64_t{0x7ff0} << 48);
            break;
        case Dtype::i32:
            key = static_cast<const std::uint32_t*>(data)[offset] ^ 0x80000000u;
            break;
        case Dtype::i64:
            key = static_cast<const std::uint64_t*>(data)[offset] ^ std::uint64_t{1} << 63;
            break;
        case Dtype::u8:
        case Dtype::boolean:
            key = static_cast<const std::uint8_t*>(data)[offset];
            break;
    }
    return descending ? ~key & ~std::uint64_t{0} >> (64 - sort_key_bits(dtype)) : key;
}

}  // namespace headroom::kernels
