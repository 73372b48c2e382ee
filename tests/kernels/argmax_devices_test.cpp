#include <algorithm>
#include <cmath>
#include <limits>

#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace argmax_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of small integers with many ties, infinities and a share of NaN: the first of the largest, or the first NaN.
Trial argmax_trial(const Variant& v, Random& random, const Shape& shape, int axis, double nans) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, [&](TestArray& array) {
        std::uniform_real_distribution<double> uniform;
        array.fill_indices(random, 5);
        for (std::int64_t i = 0; i < array.numel(); ++i) {
            if (uniform(random) < 0.1) array.set(i, i % 2 == 0 ? kInfinity : -kInfinity);
            if (uniform(random) < nans) array.set(i, kNan);
        }
    });
    Shape to = shape;
    to[axis] = 1;
    Output &high = trial.output(Dtype::i64, to, v.out), &low = trial.output(Dtype::i64, to, v.out);
    const std::int64_t inner = contiguous_strides(shape)[axis];
    for (std::int64_t i = 0; i < to.numel(); ++i) {
        const auto at = [&](std::int64_t k) { return x.get((i / inner * shape[axis] + k) * inner + i % inner); };
        std::int64_t largest = 0, smallest = 0;
        for (std::int64_t k = 1; k < shape[axis]; ++k) {
            if (at(k) > at(largest) || (std::isnan(at(k)) && !std::isnan(at(largest)))) largest = k;
            if (at(k) < at(smallest) || (std::isnan(at(k)) && !std::isnan(at(smallest)))) smallest = k;
        }
        high.expect(static_cast<double>(largest), 0), low.expect(static_cast<double>(smallest), 0);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { argmax(stream, in[0], axis, out[0]), argmin(stream, in[0], axis, out[1]); });
    };
    return trial;
}

Cases cases() {
    Cases result;
    for (const Shape& shape :
         {Shape{1}, Shape{7}, Shape{33}, Shape{2, 3, 4}, Shape{9, 31}, Shape{3, 1025}, Shape{40, 33}, Shape{0, 3}}) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
            if (shape[axis] == 0) continue;
            const std::string name = to_name(shape) + "_along_" + std::to_string(axis);
            result.add(name, argmax_trial, shape, axis, 0.0).only(kFloating, layouts_for(shape));
            result.add(name + "/nan", argmax_trial, shape, axis, 0.02).only(kFloating, layouts_for(shape));
        }
    }
    return result;
}

const bool rows = add_rows("ArgmaxRows", cases());

using Argmax = DeviceTest;

TEST_P(Argmax, SeesAllOfALongLine) {
    for (const std::int64_t place : {-1, 0, 255, 256, 4321, 4999}) {
        TestArray x(Dtype::f32, {5000}), y(Dtype::i64, {1});
        all(-kInfinity)(x);
        if (place >= 0) x.set(place, -1);
        const View in = device().put(x), to = device().put(y);
        device().run([&](auto& stream) { argmax(stream, in, 0, to); });
        device().get(to, y);
        EXPECT_EQ(y.get_integer(0), std::max<std::int64_t>(place, 0));
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Argmax, testing::ValuesIn(kPlaces), place_name);

}  // namespace argmax_devices_test
}  // namespace headroom::kernels
