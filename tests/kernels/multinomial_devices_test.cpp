// Draws of categories: when they arrive, and which a share of the sum falls on.
#include <headroom/kernels/random/multinomial.hpp>

#include <cmath>
#include <limits>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace multinomial_devices_test {

using namespace test;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const RandomKey kKey = op_key(5, 9);

std::uint32_t word_of(std::int64_t i) {
    const auto element = static_cast<std::uint64_t>(i);
    return philox(kKey, element / 4)[element % 4];
}

/// u is rounded once, log(1 - u) is within 3 ulp, and a quotient is rounded.
Trial race_trial(const Variant& v, Random& random, const Shape& shape) {
    Trial trial;
    const TestArray& weights = trial.input(v, shape, indices(random, 4));
    Output& times = trial.output(Dtype::f32, shape, v.out);
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const double u = std::min(word_of(i) * 0x1p-32 + 0x1p-33, 1 - 0x1p-24);
        const double time = -std::log1p(-u) / weights.get(i);
        const double argument = epsilon(Dtype::f32) * u / (1 - u) / weights.get(i);
        times.expect(time, std::isfinite(time) ? argument + 5 * epsilon(Dtype::f32) * time : 0);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { race(stream, kKey, in[0], out[0]); });
    };
    return trial;
}

Trial pick_trial(const Variant& v, Random& random, const Shape& shape, std::int64_t draws) {
    Trial trial;
    const TestArray& weights = trial.input(v, shape, [&](TestArray& array) {
        array.fill_indices(random, 3);
        for (std::int64_t i = 0; i < array.numel(); i += shape.back()) array.set(i + shape.back() / 2, 2);
    });
    const std::int64_t n = shape.back();
    const TestArray& sums = trial.input(Dtype::f64, shape, Layout::contiguous, [&](TestArray& array) {
        for (std::int64_t i = 0; i < array.numel(); ++i)
            array.set(i, weights.get(i) + (i % n == 0 ? 0 : array.get(i - 1)));
    });
    Shape to = shape;
    to[to.rank() - 1] = draws;
    Output& y = trial.output(Dtype::i64, to, v.out);
    for (std::int64_t i = 0; i < to.numel(); ++i) {
        const std::int64_t line = i / draws * n;
        const double target = (word_of(i) + 0.5) * 0x1p-32 * sums.get(line + n - 1);
        std::int64_t drawn = 0;
        while (sums.get(line + drawn) <= target) ++drawn;
        y.expect(static_cast<double>(drawn), 0);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { pick(stream, kKey, in[0], in[1], out[0]); });
    };
    return trial;
}

Cases cases() {
    Cases result;
    for (const Shape& shape : {Shape{1}, Shape{33}, Shape{5, 7}, Shape{2, 3, 4}, Shape{3, 1025}}) {
        result.add("race/" + to_name(shape), race_trial, shape).only(kFloating, layouts_for(shape));
        for (const std::int64_t draws : {1, 6}) {
            result.add("pick/" + to_name(shape) + "/" + std::to_string(draws), pick_trial, shape, draws)
                .only(kFloating, layouts_for(shape));
        }
    }
    return result;
}

const bool rows = add_rows("MultinomialRows", cases());

using Multinomial = DeviceTest;

TEST_P(Multinomial, RacesHaveTheBitsOfTheCpu) {
    TestArray weights(Dtype::f32, {5000}), times(Dtype::f32, {5000}), expected(times);
    for (std::int64_t i = 0; i < 5000; ++i) weights.set(i, 0.1 + static_cast<double>(i % 7));
    Device cpu(Place::cpu);
    const View from = cpu.put(weights), to = cpu.put(expected);
    cpu.run([&](auto& stream) { race(stream, kKey, from, to); });
    cpu.get(to, expected);
    const View in = device().put(weights), out = device().put(times);
    device().run([&](auto& stream) { race(stream, kKey, in, out); });
    device().get(out, times);
    EXPECT_EQ(times.memory(), expected.memory());
    weights.set(0, 0);
    const View changed = device().put(weights);
    device().run([&](auto& stream) { race(stream, kKey, changed, out); });
    device().get(out, times);
    EXPECT_EQ(times.get(0), kInfinity);
}

/// Sums that rounding told apart where the weight is 0, and sums that are no numbers.
TEST_P(Multinomial, PicksNothingOfWeightZeroAndStaysInTheLine) {
    TestArray weights(Dtype::f32, {1, 4}), sums(Dtype::f64, {1, 4}), y(Dtype::i64, {1, 64});
    for (const double last : {1.0, std::nan(""), 0.0, -1.0}) {
        for (int i = 0; i < 4; ++i) weights.set(i, i == 2 ? 1 : 0), sums.set(i, last * (i + 1) / 4);
        const View in = device().put(weights), to = device().put(sums), out = device().put(y);
        device().run([&](auto& stream) { pick(stream, kKey, in, to, out); });
        device().get(out, y);
        for (std::int64_t i = 0; i < 64; ++i) EXPECT_EQ(y.get(i), 2) << last;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Multinomial, testing::ValuesIn(kPlaces), place_name);

}  // namespace multinomial_devices_test
}  // namespace headroom::kernels
