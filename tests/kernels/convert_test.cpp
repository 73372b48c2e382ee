#include <headroom/kernels/convert.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace headroom::kernels {
namespace convert_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The nearest number with `bits` significant bits and smallest exponent `lowest`, ties to even, infinite from 2^limit
/// on.
double rounded(double x, int bits, int lowest, int limit) {
    if (!std::isfinite(x) || x == 0) return x;
    int exponent;
    std::frexp(x, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - bits, lowest));
    const double result = std::nearbyint(x / unit) * unit;
    return std::abs(result) >= std::ldexp(1.0, limit) ? std::copysign(kInfinity, x) : result;
}
double rounded(double x, Dtype dtype) {
    return dtype == Dtype::f16 ? rounded(x, 11, -24, 16) : rounded(x, 8, -133, 128);
}

template <class T>
std::vector<T> loaded(const void* source, Dtype dtype, std::int64_t stride, std::int64_t count) {
    std::vector<T> result(static_cast<std::size_t>(count));
    load(source, dtype, stride, count, result.data());
    return result;
}

TEST(Convert, LoadsEveryHalfExactly) {
    std::vector<std::uint16_t> bits;
    for (std::uint32_t i = 0; i < 0x10000; ++i) bits.push_back(static_cast<std::uint16_t>(i));
    const auto f16s = loaded<float>(bits.data(), Dtype::f16, 1, 0x10000);
    const auto bf16s = loaded<float>(bits.data(), Dtype::bf16, 1, 0x10000);
    for (std::size_t i = 0; i < bits.size(); ++i) {
        const int exponent = bits[i] >> 10 & 31;
        const double fraction = bits[i] & 1023;
        double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31) value = fraction == 0 ? kInfinity : kNan;
        if (bits[i] & 0x8000) value = -value;
        if (std::isnan(value)) {
            ASSERT_TRUE(std::isnan(f16s[i])) << i;
        } else {
            ASSERT_EQ(f16s[i], value) << i;
        }
        const float wide = std::bit_cast<float>(static_cast<std::uint32_t>(bits[i]) << 16);
        ASSERT_EQ(std::isnan(bf16s[i]) ? 1 : bf16s[i] == wide, 1) << i;
    }
}

TEST(Convert, StoresEveryHalfThatItLoaded) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        std::vector<std::uint16_t> bits, back(0x10000);
        for (std::uint32_t i = 0; i < 0x10000; ++i) bits.push_back(static_cast<std::uint16_t>(i));
        const auto values = loaded<float>(bits.data(), dtype, 1, 0x10000);
        store(values.data(), 0x10000, back.data(), dtype, 1);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            if (!std::isnan(values[i])) {
                ASSERT_EQ(back[i], bits[i]) << name(dtype);
            }
        }
    }
}

TEST(Convert, RoundsHalvesOnceToNearestEven) {
    std::mt19937_64 random(5);
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        std::vector<double> wide{0,
                                 -0.0,
                                 65504,
                                 65519.99,
                                 65520,
                                 65536,
                                 -70000,
                                 0x1p-25,
                                 0x1.8p-24,
                                 0x1p-24,
                                 1 + 0x1p-11,
                                 1 + 0x1p-11 + 0x1p-40,
                                 1 + 0x1p-8 - 0x1p-45,
                                 1 + 0x1p-8 + 0x1p-45,
                                 3.39e38,
                                 3.4e38,
                                 1e300,
                                 kInfinity,
                                 -kInfinity};
        for (int i = 0; i < 20000; ++i) {
            const double scale = std::ldexp(1.0, static_cast<int>(random() % 300) - 150);
            const double coarse = static_cast<double>(random() % 4096) / 2048;  // many ties
            wide.push_back(scale * (coarse + (random() % 3 ? 0 : std::ldexp(1.0, -static_cast<int>(random() % 50)))));
        }
        std::vector<float> narrow(wide.begin(), wide.end());
        const auto n = static_cast<std::int64_t>(wide.size());
        std::vector<std::uint16_t> from_wide(wide.size()), from_narrow(wide.size());
        store(wide.data(), n, from_wide.data(), dtype, 1);
        store(narrow.data(), n, from_narrow.data(), dtype, 1);
        const auto wide_back = loaded<double>(from_wide.data(), dtype, 1, n);
        const auto narrow_back = loaded<double>(from_narrow.data(), dtype, 1, n);
        for (std::size_t i = 0; i < wide.size(); ++i) {
            ASSERT_EQ(wide_back[i], rounded(wide[i], dtype)) << wide[i] << " " << name(dtype);
            ASSERT_EQ(narrow_back[i], rounded(narrow[i], dtype)) << narrow[i] << " " << name(dtype);
        }
    }
}

TEST(Convert, KeepsNan) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
        std::vector<float> values(19, std::numeric_limits<float>::quiet_NaN());
        std::vector<double> memory(19);
        store(values.data(), 19, memory.data(), dtype, 1);
        for (const double x : loaded<double>(memory.data(), dtype, 1, 19)) EXPECT_TRUE(std::isnan(x));
    }
}

TEST(Convert, SaturatesFloatingNumbersAsIntegers) {
    const std::vector<double> values{-1e300, -2147483649.0, -1.9,         -0.5,  0.9, 1.9,
                                     255.9,  256,           2147483648.0, 1e300, kNan};
    const auto n = static_cast<std::int64_t>(values.size());
    std::vector<std::int32_t> i32(values.size());
    std::vector<std::int64_t> i64(values.size());
    std::vector<std::uint8_t> u8(values.size());
    store(values.data(), n, i32.data(), Dtype::i32, 1);
    store(values.data(), n, i64.data(), Dtype::i64, 1);
    store(values.data(), n, u8.data(), Dtype::u8, 1);
    constexpr auto high = std::numeric_limits<std::int64_t>::max(), low = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(i32, (std::vector<std::int32_t>{INT32_MIN, INT32_MIN, -1, 0, 0, 1, 255, 256, INT32_MAX, INT32_MAX, 0}));
    EXPECT_EQ(i64, (std::vector<std::int64_t>{low, -2147483649, -1, 0, 0, 1, 255, 256, 2147483648, high, 0}));
    EXPECT_EQ(u8, (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 0}));
    const float floats[] = {3e38f, -3e38f};
    store(floats, 2, i64.data(), Dtype::i64, 1);
    EXPECT_EQ(i64[0], high);
    EXPECT_EQ(i64[1], low);
}

TEST(Convert, TakesAnythingButZeroAsTrue) {
    const double values[] = {0, -0.0, 1e-300, -3, kNan};
    bool truths[5];
    store(values, 5, truths, Dtype::boolean, 1);
    EXPECT_FALSE(truths[0]);
    EXPECT_FALSE(truths[1]);
    EXPECT_TRUE(truths[2]);
    EXPECT_TRUE(truths[3]);
    EXPECT_TRUE(truths[4]);
}

TEST(Convert, RoundsLargeIntegersOnce) {
    // Just above a tie between two neighbours, by less than f32 or f64 can tell.
    const std::int64_t values[] = {(1LL << 62) + (1LL << 54) + 1, (1LL << 62) + (1LL << 54) - 1,
                                   -(1LL << 62) - (1LL << 54) - 1, INT64_MIN, INT64_MAX};
    bf16 halves[5];
    store(values, 5, halves, Dtype::bf16, 1);
    EXPECT_EQ(to_float(halves[0]), 0x1p62f + 0x1p55f);
    EXPECT_EQ(to_float(halves[1]), 0x1p62f);
    EXPECT_EQ(to_float(halves[2]), -0x1p62f - 0x1p55f);
    EXPECT_EQ(to_float(halves[3]), -0x1p63f);
    EXPECT_EQ(to_float(halves[4]), 0x1p63f);
}

TEST(Convert, FollowsStrides) {
    for (int d = 0; d < kDtypeCount; ++d) {
        const auto dtype = static_cast<Dtype>(d);
        std::vector<std::byte> memory(64 * 8, std::byte{0});
        std::vector<float> values;
        for (int i = 0; i < 21; ++i) values.push_back(static_cast<float>(dtype == Dtype::boolean ? i % 2 : i));
        store(values.data(), 21, memory.data(), dtype, 3);
        EXPECT_EQ(loaded<float>(memory.data(), dtype, 3, 21), values) << name(dtype);
        const std::vector<float> reversed(values.rbegin(), values.rend());
        EXPECT_EQ(loaded<float>(memory.data() + 60 * size_of(dtype), dtype, -3, 21), reversed) << name(dtype);
        EXPECT_EQ(loaded<float>(memory.data() + 9 * size_of(dtype), dtype, 0, 4), std::vector<float>(4, values[3]));
        EXPECT_TRUE(loaded<float>(nullptr, dtype, 0, 0).empty());
    }
}

TEST(Convert, BorrowsWhatNeedsNoConversion) {
    float memory[8] = {1, 2, 3, 4, 5, 6, 7, 8}, buffer[8];
    EXPECT_EQ(borrow<float>(memory, Dtype::f32, 1, 8, buffer), memory);
    EXPECT_EQ(borrow<float>(memory, Dtype::f32, 2, 4, buffer), buffer);
    EXPECT_EQ(buffer[3], 7.0f);
    EXPECT_EQ(borrow_target<float>(memory, Dtype::f32, 1, 8, buffer), memory);
    EXPECT_EQ(borrow_target<float>(memory, Dtype::f16, 1, 8, buffer), buffer);
    settle(memory, 8, memory, Dtype::f32, 1);
    EXPECT_EQ(memory[7], 8.0f);
}

}  // namespace convert_test
}  // namespace headroom::kernels
