// Random numbers: their distribution on the CPU, and that every device draws the same.
#include <headroom/kernels/random/random.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/random/internal/words.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace random_devices_test {

using namespace test;

TEST(Philox, GivesTheReferenceVectors) {
    // Of the Random123 distribution, kat_vectors, philox 4x32 with 10 rounds.
    EXPECT_EQ(philox_rounds({0, 0, 0, 0}, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox_rounds({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
              (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox_rounds({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
              (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, HashesPathsByFnv1a) {
    EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ull);
    EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cull);
    EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ull);
}

TEST(Philox, KeepsDomainsApart) {
    std::set<PhiloxBlock> blocks;
    for (const auto domain :
         {RandomDomain::op, RandomDomain::initialisation, RandomDomain::data, RandomDomain::sampling}) {
        for (std::uint64_t number = 0; number < 10; ++number) {
            for (std::uint64_t seed : {0ull, 1ull, 1ull << 32}) {
                blocks.insert(philox(random_key(seed, domain, number), 0));
                blocks.insert(philox(random_key(seed, domain, number), 1ull << 32));
            }
        }
    }
    EXPECT_EQ(blocks.size(), 4u * 10 * 3 * 2);
    EXPECT_NE(path_key(1, "a.weight"), path_key(1, "b.weight"));
}

TEST(RandomWords, AreTheSameWhereverARunBegins) {
    const RandomKey key = op_key(42, 7);
    RandomWords words;
    for (const std::int64_t first : {0ll, 1ll, 2ll, 3ll, 1000ll, 4097ll, (1ll << 34) + 5}) {
        for (const std::int64_t count : {1, 2, 5, 64, 1023, 1024}) {
            const std::uint32_t* run = words.generate(key, first, count);
            for (std::int64_t i = 0; i < count; ++i) {
                const auto element = static_cast<std::uint64_t>(first + i);
                ASSERT_EQ(run[i], philox(key, element / 4)[element % 4]);
            }
        }
    }
}

/// Numbers depend on the position alone, not on layout, threads or device, and are rounded from those of f32.
Trial random_trial(const Variant& v, Random&, const Shape& shape, const RandomKey& key) {
    Trial trial;
    const auto make = [=](Device& device, const Views& out) {
        device.run([&](auto& stream) {
            uniform(stream, key, -1.5f, 3.0f, out[0]), normal(stream, key, 0.3f, 17.0f, out[1]);
            random_integers(stream, key, 0, 100, out[2]);
        });
    };
    Device cpu(Place::cpu, 1);
    Views views;
    for (const Dtype dtype : {Dtype::f32, Dtype::f32, Dtype::i64}) {
        TestArray array(dtype, shape);
        views.push_back(cpu.put(array));
        trial.output(v, shape);
    }
    make(cpu, views);
    for (std::size_t k = 0; k < 3; ++k) {
        TestArray numbers(views[k].dtype, shape), rounded(v.dtype, shape);
        cpu.get(views[k], numbers);
        for (std::int64_t i = 0; i < shape.numel(); ++i) {
            rounded.set(i, numbers.get(i));
            trial.out[k].expect(rounded.get(i), 0);
        }
    }
    trial.call = [=](Device& device, const Views&, const Views& out) { make(device, out); };
    return trial;
}

Cases cases() {
    Cases result;
    // One thread's elements and one more or less, a block's threads, more than the emulated grid takes at once.
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3}, Shape{4}, Shape{5}, Shape{8}, Shape{31}, Shape{33},
                               Shape{1023}, Shape{1025}, Shape{5, 37}, Shape{3, 4, 5}, Shape{70001}, Shape{0, 3}}) {
        result.add(to_name(shape), random_trial, shape, op_key(42, 7)).only(kAllDtypes, layouts_for(shape));
    }
    for (const RandomKey& key : {RandomKey{~0ull, ~0ull}, RandomKey{1ull << 32, 0}, RandomKey{0, 1ull << 32}}) {
        result
            .add("key_" + std::to_string(key.seed & 3) + std::to_string(key.sequence & 3), random_trial, Shape{257},
                 key)
            .only(kF32);
    }
    return result;
}

const bool rows = add_rows("RandomRows", cases());

using RandomNumbers = DeviceTest;

TEST_P(RandomNumbers, BeginAnywhere) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i32}) {
        for (std::int64_t start = 0; start < 9; ++start) {
            TestArray all(dtype, {100}), part(dtype, {100});
            const View a = device().put(all), b = device().put(part);
            const View of_b = contiguous_view(b.at(start), dtype, {100 - start - 1});
            device().run([&](auto& stream) {
                random_integers(stream, op_key(42, 7), 0, 1000, a),
                    random_integers(stream, op_key(42, 7), 0, 1000, of_b);
            });
            device().get(a, all), device().get(b, part);
            for (std::int64_t i = 0; i < 99 - start; ++i) ASSERT_EQ(part.get(start + i), all.get(i)) << start;
        }
    }
}

/// A range of 2^32, which takes a word whole.
TEST_P(RandomNumbers, CoverLargeRanges) {
    TestArray y(Dtype::i64, {1000});
    const View out = device().put(y);
    const std::int64_t low = -(std::int64_t{1} << 40);
    device().run([&](auto& stream) { random_integers(stream, op_key(14, 0), low, low + (1ll << 32), out); });
    device().get(out, y);
    for (std::uint64_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(y.get_integer(static_cast<std::int64_t>(i)), low + philox(op_key(14, 0), i / 4)[i % 4]);
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomNumbers, testing::ValuesIn(kPlaces), place_name);

TEST(Random, UniformFillsItsIntervalEvenly) {
    CpuStream stream{1};
    constexpr int n = 200000, bins = 50;
    TestArray y(Dtype::f32, {n});
    uniform(stream, op_key(11, 0), 2.0f, 4.0f, y);
    std::vector<int> counts(bins);
    for (const double value : y.values()) {
        ASSERT_GE(value, 2.0);
        ASSERT_LT(value, 4.0);
        ++counts[static_cast<std::size_t>((value - 2) / 2 * bins)];
    }
    double chi2 = 0;
    for (const int count : counts) chi2 += std::pow(count - n / bins, 2) / (n / bins);
    EXPECT_NEAR(chi2, bins - 1, 5 * std::sqrt(2.0 * (bins - 1)));  // five standard deviations
}

TEST(Random, NormalHasItsMomentsAndTails) {
    CpuStream stream{1};
    constexpr int n = 400000;
    TestArray y(Dtype::f32, {n});
    normal(stream, op_key(12, 0), 0.0f, 1.0f, y);
    double sums[5] = {}, neighbours = 0, inside = 0, largest = 0, previous = 0;
    for (const double z : y.values()) {
        for (int k = 1; k <= 4; ++k) sums[k] += std::pow(z, k) / n;
        neighbours += z * previous / n;
        previous = z;
        inside += std::abs(z) < 1 ? 1.0 / n : 0;
        largest = std::max(largest, std::abs(z));
    }
    const double unit = 5 / std::sqrt(n);  // five standard deviations of a mean of n
    EXPECT_NEAR(sums[1], 0, unit);
    EXPECT_NEAR(sums[2], 1, unit * std::sqrt(2));
    EXPECT_NEAR(sums[3], 0, unit * std::sqrt(15));
    EXPECT_NEAR(sums[4], 3, unit * std::sqrt(96));
    EXPECT_NEAR(neighbours, 0, unit);
    EXPECT_NEAR(inside, 0.682689492, unit);
    EXPECT_GT(largest, 4.0);
    EXPECT_LT(largest, 6.77);
}

TEST(Random, NormalIsBoxAndMullersTransformation) {
    const RandomKey key = op_key(13, 5);
    CpuStream stream{1};
    TestArray y(Dtype::f32, {4001});
    normal(stream, key, 0.5f, 2.0f, y);
    for (std::uint64_t i = 0; i < 4001; ++i) {
        const PhiloxBlock block = philox(key, i / 4);
        const std::size_t pair = i % 4 / 2 * 2;
        const double radius = std::sqrt(-2 * std::log((block[pair] + 0.5) * 0x1p-32));
        const double angle = 2 * 3.14159265358979323846 * (block[pair + 1] >> 8) * 0x1p-24;
        const double z = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
        ASSERT_NEAR(y.get(static_cast<std::int64_t>(i)), 0.5 + 2 * z, 2e-5) << i;
    }
}

TEST(Random, HasTheBitsThatItAlwaysHad) {
    // Checkpoints and other devices rely on them.
    CpuStream stream{1};
    float y[5];
    const View view = contiguous_view(y, Dtype::f32, {5});
    normal(stream, path_key(1337, "blocks.0.up.weight"), 0.0f, 0.02f, view);
    std::uint64_t hash = 0;
    for (const float value : y) hash = hash * 1099511628211ull + std::bit_cast<std::uint32_t>(value);
    uniform(stream, op_key(1337, 3), -1.0f, 1.0f, view);
    for (const float value : y) hash = hash * 1099511628211ull + std::bit_cast<std::uint32_t>(value);
    EXPECT_EQ(hash, 396444525872772347ull);
}

TEST(Random, IntegersCoverTheirRange) {
    CpuStream stream{1};
    TestArray y(Dtype::i64, {20000});
    random_integers(stream, op_key(14, 0), -3, 4, y);
    std::vector<int> counts(7);
    for (std::int64_t i = 0; i < 20000; ++i) ++counts.at(static_cast<std::size_t>(y.get_integer(i) + 3));
    for (const int count : counts) EXPECT_NEAR(count, 20000.0 / 7, 5 * std::sqrt(20000.0 / 7));
}

}  // namespace random_devices_test
}  // namespace headroom::kernels
