// cumsum, from both ends.
#include <headroom/kernels/scan/scan.hpp>

#include <cmath>
#include <limits>

#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace scan_devices_test {

using namespace test;

/// A sum is of terms of f32 in 256 threads, which takes 8 additions after each other, 8 more for the warps before; what
/// goes on from there is f64.
Trial cumsum_trial(const Variant& v, Random& random, const Shape& shape, int axis, bool reverse, float beta) {
    Trial trial;
    const bool floating = is_floating(v.dtype);
    const TestArray& x = trial.input(v, shape, floating ? normal(random) : indices(random, 100));
    const Dtype to = floating ? v.dtype : Dtype::i64;
    Output& y = trial.output(to, shape, v.out, beta == 0 ? Fill() : indices(random, 9));
    const std::int64_t inner = contiguous_strides(shape)[axis], length = shape[axis];
    const double unit = v.dtype == Dtype::f64 ? epsilon(Dtype::f64) : floating ? epsilon(Dtype::f32) : 0;
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const std::int64_t place = i / inner % length;
        double sum = 0, size = 0;
        for (std::int64_t k = reverse ? place : 0; k <= (reverse ? length - 1 : place); ++k) {
            const double term = x.get(i + (k - place) * inner);
            sum += term, size += std::abs(term);
        }
        const double before = beta == 0 ? 0 : beta * y.before();
        const double count = v.dtype == Dtype::f64 ? static_cast<double>(length) : 16;
        y.expect(sum + before, count * unit * (size + std::abs(before)));
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run<CumsumPlan>(in[0], axis, reverse, out[0], beta);
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64,
                                        Dtype::i32, Dtype::i64, Dtype::u8};
    Cases result;
    for (const Shape& shape : {Shape{1}, Shape{31}, Shape{257}, Shape{2, 3, 4}, Shape{5, 40}, Shape{2, 600},
                               Shape{300, 5}, Shape{0, 3}, Shape{2, 0}}) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
            const std::string name = to_name(shape) + "_along_" + std::to_string(axis);
            result.add(name, cumsum_trial, shape, axis, false, 0.0f).only(kDtypes);
            result.add(name + "/reverse_added", cumsum_trial, shape, axis, true, 1.0f).only(kF32, layouts_for(shape));
        }
    }
    if (!kRaces) {  // in parts
        static constexpr Dtype kLongest[] = {Dtype::i64};
        result.add("9000", cumsum_trial, Shape{9000}, 0, false, 0.0f).only(kLongest);
        result.add("9000/reverse", cumsum_trial, Shape{9000}, 0, true, 1.0f).only(kWide);
        result.add("4500x3/beside", cumsum_trial, Shape{4500, 3}, 0, false, 0.0f).only(kWide);
    }
    return result;
}

const bool rows = add_rows("CumsumRows", cases());

using Cumsum = DeviceTest;

TEST_P(Cumsum, WrapsAroundAsIntegersDo) {
    TestArray x(Dtype::i64, {2}), y(Dtype::i64, {2});
    store_one(std::numeric_limits<std::int64_t>::max(), x.view().at(0), Dtype::i64);
    store_one(std::int64_t{3}, x.view().at(1), Dtype::i64);
    const View in = device().put(x), out = device().put(y);
    device().run<CumsumPlan>(in, 0, false, out, 0.0f);
    device().get(out, y);
    EXPECT_EQ(y.get_integer(1), std::numeric_limits<std::int64_t>::min() + 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, Cumsum, testing::ValuesIn(kPlaces), place_name);

}  // namespace scan_devices_test
}  // namespace headroom::kernels
