#include <headroom/kernels/rotary/rotary.hpp>

#include <cmath>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace rotary_devices_test {

using namespace test;

/// The values, and the values added to 2 in f32, or from f32 in f64.
Trial rotary_trial(const Variant& v, Random& random, const Shape& shape, Rotary rotary) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, normal(random));
    const Dtype other = other_width(v.dtype);
    Output &y = trial.output(v, shape), &sum = trial.output(other, shape, v.out, all(2));
    y.over = 0;
    const std::int64_t width = shape[3], half = width / 2;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        const std::int64_t k = i % width, head = i / width % shape[2], t = i / width / shape[2] % shape[1];
        double value = x.get(i), size = std::abs(value);
        if (head < rotary.heads) {
            const bool second = rotary.interleaved ? k % 2 == 1 : k >= half;
            const std::int64_t pair = rotary.interleaved ? k / 2 : k % half;
            const double other = x.get(rotary.interleaved ? (second ? i - 1 : i + 1) : (second ? i - half : i + half));
            const double angle = static_cast<double>(rotary.first_position + t) *
                                 std::pow(rotary.base, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
            const double sine = rotary.back ? -std::sin(angle) : std::sin(angle);
            value = x.get(i) * std::cos(angle) + (second ? sine : -sine) * other;
            size = std::abs(x.get(i)) + std::abs(other);
        }
        // Two products and a sum; the angle is off by an epsilon of f64 for each turn, and of half a turn.
        const double angle = epsilon(Dtype::f64) * (4 + static_cast<double>(rotary.first_position + t));
        const auto error = [&](Dtype to) {
            const bool wide = v.dtype == Dtype::f64 || to == Dtype::f64;
            return head < rotary.heads ? size * (7 * epsilon(wide ? Dtype::f64 : Dtype::f32) + angle) : 0;
        };
        y.expect(value, error(v.dtype)), sum.expect(2 + value, error(other) + 4 * epsilon(other) * (2 + size));
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            kernels::rotary(stream, rotary, in[0], 1.0f, out[1]);
            kernels::rotary(stream, rotary, in[0], 0.0f, out[0]);
        });
    };
    return trial;
}

Cases cases() {
    Cases result;
    for (const bool interleaved : {false, true}) {
        const std::string name = interleaved ? "neighbours/" : "halves/";
        const auto add = [&](const Shape& shape, Rotary rotary) -> Case& {
            rotary.interleaved = interleaved;
            return result.add(name + to_name(shape) + (rotary.back ? "/back" : ""), rotary_trial, shape, rotary);
        };
        add({1, 1, 1, 2}, {.heads = 1});
        add({2, 3, 2, 6}, {.base = 100, .heads = 2});
        add({2, 3, 2, 6}, {.first_position = 5, .heads = 2, .back = true});
        add({1, 5, 3, 64}, {.first_position = 100000, .heads = 3});
        add({2, 3, 6, 10}, {.heads = 4});  // two heads of values are copied
        add({1, 0, 2, 4}, {.heads = 2});
        add({1, 2, 2, 0}, {.heads = 2});
        // More pairs than threads of a block, and than the processor takes at a time; more positions than blocks.
        add({1, 3, 1, 1030}, {.heads = 1}).only(kFloating);
        add({3, 40, 2, 6}, {.heads = 2}).only(kFloating);  // three pairs, of which no block's threads are a multiple
        add({2, 700, 2, 4}, {.heads = 1}).only(kFloating).large = true;
    }
    return result;
}

const bool rows = add_rows("Rotary", cases());

}  // namespace rotary_devices_test
}  // namespace headroom::kernels
