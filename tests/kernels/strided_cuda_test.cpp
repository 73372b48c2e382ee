// What kernels use to find elements and to convert them. Plain C++ that needs no launch: called here as a kernel would.
#include <headroom/kernels/device/strided.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/device/elements.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::device {
namespace strided_cuda_test {

using kernels::Walk;
using test::kLayouts;
using test::Layout;
using test::TestArray;

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64,
                             Dtype::i32, Dtype::i64, Dtype::u8,   Dtype::boolean};

/// Numbers at which conversions differ.
template <class T>
std::vector<T> numbers() {
    std::vector<T> result;
    std::mt19937_64 random(1);
    if constexpr (std::is_same_v<T, std::int64_t>) {
        for (int shift = 0; shift < 63; ++shift) {
            for (const std::int64_t near : {-1, 0, 1}) {
                result.push_back((1LL << shift) + near);
                result.push_back(-(1LL << shift) - near);
            }
            result.push_back(static_cast<std::int64_t>(random() >> shift));
            result.push_back(-static_cast<std::int64_t>(random() >> (shift + 1)));
        }
        result.push_back(std::numeric_limits<T>::min());
        result.push_back(std::numeric_limits<T>::max());
    } else {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        for (int exponent = -160; exponent < 140; ++exponent) {
            for (const double factor :
                 {1.0, 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11, 1 + 0x3p-11 - 0x1p-30, 1.7}) {
                const double value = std::ldexp(factor, exponent);
                result.insert(result.end(), {static_cast<T>(value), static_cast<T>(-value)});
            }
        }
        result.insert(result.end(), {T(0), T(-0.0), infinity, -infinity, std::numeric_limits<T>::quiet_NaN(), T(0.5),
                                     T(-0.5), T(255.9), T(256), T(-1)});
    }
    return result;
}

/// The same number, or NaN both.
template <class T>
void expect_same(T a, T b, Dtype dtype) {
    const bool nan = a != a && b != b;
    EXPECT_TRUE(nan || std::memcmp(&a, &b, sizeof a) == 0) << name(dtype) << " " << +a << " " << +b;
}

template <class T>
void expect_converts_as_the_cpu() {
    for (const Dtype dtype : kDtypes) {
        for (const T number : numbers<T>()) {
            alignas(8) std::byte ours[16] = {}, theirs[16] = {};
            store_as<T>(ours, dtype, 1, number);
            kernels::store_one(number, theirs + size_of(dtype), dtype);
            const T back = load_as<T>(theirs, dtype, 1);
            expect_same(back, kernels::load_one<T>(theirs + size_of(dtype), dtype), dtype);
            if (number == number) {
                EXPECT_EQ(std::memcmp(ours, theirs, sizeof ours), 0) << name(dtype) << " " << +number;
            } else {
                expect_same(load_as<T>(ours, dtype, 1), back, dtype);
            }
        }
    }
}

TEST(Elements, ConvertAsTheCpuDoes) {
    expect_converts_as_the_cpu<float>();
    expect_converts_as_the_cpu<double>();
    expect_converts_as_the_cpu<std::int64_t>();
}

TEST(Elements, AccumulateReadsNothingForABetaOfZero) {
    float target[2] = {std::numeric_limits<float>::quiet_NaN(), 3};
    accumulate_as<float>(target, Dtype::f32, 0, 0.0f, 7.0f);
    accumulate_as<float>(target, Dtype::f32, 1, 0.5f, 7.0f);
    EXPECT_EQ(target[0], 7.0f);
    EXPECT_EQ(target[1], 8.5f);
}

TEST(Divisor, DividesAsTheProcessorDoes) {
    std::mt19937_64 random(2);
    std::vector<std::uint64_t> divisors = {
        1, 2, 3, 5, 7, 64, 65, 641, (1u << 31) - 1, 1ull << 31, (1ull << 62) - 1, (1ull << 62) + 1};
    for (int i = 0; i < 500; ++i) divisors.push_back((random() >> (i % 63 + 1)) + 1);
    for (const std::uint64_t d : divisors) {
        const Divisor divisor(static_cast<std::int64_t>(d));
        std::vector<std::uint64_t> dividends = {0, 1, d - 1, d, d + 1, 2 * d - 1, (1ull << 31) - 1, (1ull << 63) - 1};
        for (int i = 0; i < 200; ++i) dividends.push_back(random() >> (i % 63 + 1));
        for (const std::uint64_t n : dividends) {
            if (n >> 63) continue;
            ASSERT_EQ(divisor.divide(n), n / d) << n << " / " << d;
            if (n >> 31 || d >> 31) continue;
            ASSERT_EQ(divisor.divide(static_cast<std::uint32_t>(n)), n / d) << n << " / " << d;
        }
    }
}

TEST(Strided, FindsTheElementsOfAllOperands) {
    const Shape shapes[] = {{}, {1}, {7}, {5, 37}, {3, 1, 50}, {2, 3, 4, 5}, {2, 3, 2, 3, 2, 3}, {40, 30}, {2, 0, 3}};
    for (const Shape& shape : shapes) {
        for (const Layout to : kLayouts) {
            for (const Layout from : kLayouts) {
                Shape narrow = shape;
                if (narrow.rank() > 1) narrow[0] = 1;
                const TestArray y(Dtype::f32, shape, to), a(Dtype::f16, narrow, from), b(Dtype::f64, {});
                const Strided<3> strided({&y.view(), &a.view(), &b.view()});
                ASSERT_EQ(strided.numel(), shape.numel());
                const auto of_y = test::offsets_of(broadcast_to(y, shape)),
                           of_a = test::offsets_of(broadcast_to(a, shape));
                std::vector<std::int64_t> found(of_y.empty() ? 0 : static_cast<std::size_t>(y.memory().size()), -1);
                for (std::int64_t i = 0; i < strided.numel(); ++i) {
                    const Offsets<3> offsets = strided.offsets(i);
                    ASSERT_EQ(found[static_cast<std::size_t>(offsets[0])], -1);
                    found[static_cast<std::size_t>(offsets[0])] = offsets[1];
                    ASSERT_EQ(offsets[2], 0);
                }
                for (std::size_t i = 0; i < of_y.size(); ++i) {
                    ASSERT_EQ(found[static_cast<std::size_t>(of_y[i])], of_a[i]) << test::describe(y);
                }
            }
        }
    }
}

TEST(Strided, TakesArraysBeyond32Bits) {
    const Shape shape{70000, 3, 50000};  // addresses are computed only
    const View y{nullptr, Dtype::f32, shape, {200000, 66000, 1}};
    const View a{nullptr, Dtype::f32, shape, {1, 70000, std::int64_t{1} << 40}};
    const Strided<2> strided({&y, &a});
    std::mt19937_64 random(3);
    for (int i = 0; i < 1000; ++i) {
        const auto n = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.numel()));
        const std::int64_t x = n / 150000, plane = n / 50000 % 3, z = n % 50000;
        ASSERT_EQ(strided.offsets(n)[0], x * 200000 + plane * 66000 + z);
        ASSERT_EQ(strided.offsets(n)[1], x + plane * 70000 + (z << 40));
    }
    const View small{nullptr, Dtype::f32, {3, 5}, {std::int64_t{1} << 33, -1}};
    EXPECT_EQ(Strided<1>({&small}, Walk::Order::shape).offsets(9)[0], (std::int64_t{1} << 33) - 4);
}

TEST(Rows, BeginWhereTheyShould) {
    for (const Shape& shape :
         {Shape{}, Shape{9}, Shape{3, 4}, Shape{2, 3, 1, 5}, Shape{2, 3, 4, 5, 2, 3}, Shape{0, 3}, Shape{3, 0}}) {
        for (const Layout layout : kLayouts) {
            TestArray x(Dtype::i32, shape, layout);
            const Rows rows(x);
            const std::int64_t length = shape.rank() == 0 ? 1 : shape.back();
            ASSERT_EQ(rows.length(), length);
            if (length > 0) {
                ASSERT_EQ(rows.count(), shape.numel() / length);
            }
            for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(i));
            for (std::int64_t i = 0; i < x.numel(); ++i) {
                ASSERT_EQ(rows.load<std::int64_t>(rows.offset(i / length), i % length), i) << test::describe(x);
            }
        }
    }
    const TestArray rows(Dtype::f32, {3, 0});
    EXPECT_EQ(Rows(rows).count(), 3);
}

TEST(Rows, KnowWhetherVectorsFit) {
    TestArray x(Dtype::f16, {4, 64});
    View view = x.view();
    view.data = x.view().at(0);
    EXPECT_TRUE(Rows(view).vectors());
    View part = view;
    part.shape[1] = 40;  // still every 64
    EXPECT_TRUE(Rows(part).vectors());
    part.strides[0] = 60;
    EXPECT_FALSE(Rows(part).vectors());
    part = view;
    part.data = view.at(1);
    EXPECT_FALSE(Rows(part).vectors());
    part = view;
    part.strides = {1, 4};
    EXPECT_FALSE(Rows(part).vectors());
    part.shape[1] = 1, part.strides = {8, 100};
    EXPECT_TRUE(Rows(part).vectors());
}

}  // namespace strided_cuda_test
}  // namespace headroom::kernels::device
