// The order of elements: all positions, and the first few.
#include <headroom/kernels/sort/sort.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace sort_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// NaN counts as the largest.
bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

/// Of integers with many ties, zeros of both signs, infinities and NaN. `k`: of each line; -1: all. `most`: are sorted
/// at a time.
Trial order_trial(const Variant& v, Random& random, const Shape& shape, int axis, std::int64_t k, bool descending,
                  std::int64_t most) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, [&](TestArray& array) {
        std::uniform_int_distribution<int> draw(0, 19);
        array.fill_indices(random, 60);
        for (std::int64_t i = 0; i < array.numel(); ++i) {
            if (is_floating(v.dtype) || v.dtype == Dtype::i32 || v.dtype == Dtype::i64) array.set(i, array.get(i) - 30);
            if (!is_floating(v.dtype)) continue;
            const int special = draw(random);
            if (special < 2) array.set(i, special == 0 ? 0.0 : -0.0);
            if (special == 2) array.set(i, i % 2 == 0 ? kInfinity : -kInfinity);
            if (special == 3) array.set(i, i % 2 == 0 ? kNan : -kNan);
        }
    });
    Shape to = shape;
    if (k >= 0) to[axis] = k;
    Output& y = trial.output(Dtype::i64, to, v.out);
    const std::int64_t inner = contiguous_strides(shape)[axis], length = shape[axis];
    const std::int64_t lines = length == 0 ? 0 : shape.numel() / length;
    std::vector<std::vector<std::int64_t>> orders;
    for (std::int64_t line = 0; line < lines; ++line) {
        const auto at = [&](std::int64_t i) { return x.get((line / inner * length + i) * inner + line % inner); };
        std::vector<std::int64_t>& order = orders.emplace_back(static_cast<std::size_t>(length));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
            return descending ? less(at(b), at(a)) : less(at(a), at(b));
        });
    }
    for (std::int64_t i = 0; i < to.numel(); ++i) {
        const auto line = static_cast<std::size_t>(i / inner / to[axis] * inner + i % inner);
        y.expect(static_cast<double>(orders[line][static_cast<std::size_t>(i / inner % to[axis])]), 0);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        if (k < 0) return device.run<ArgsortPlan>(in[0], axis, descending, out[0], most);
        device.run<TopPlan>(in[0], axis, descending, out[0], most);
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kF16[] = {Dtype::f16}, kI32[] = {Dtype::i32};
    Cases result;
    const auto add = [&](const std::string& name, const Shape& shape, int axis, std::int64_t k, bool descending,
                         std::int64_t most = kMostSorted) -> Case& {
        const std::string first = k < 0 ? "" : "/first_" + std::to_string(k);
        return result.add(name + "_along_" + std::to_string(axis) + first +
                              (descending ? "/descending" : "/ascending") +
                              (most < kMostSorted ? "/" + std::to_string(most) + "_at_once" : ""),
                          order_trial, shape, axis, k, descending, most);
    };
    for (const Shape& shape : {Shape{1}, Shape{33}, Shape{2, 3, 4}, Shape{9, 31}, Shape{0, 3}, Shape{2, 0}}) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
            for (const std::int64_t k : {-1, 0, 1, 5}) {
                if (k > shape[axis]) continue;
                add(to_name(shape), shape, axis, k, true)
                    .only(k < 0 || k == 5 ? std::span<const Dtype>(kAllDtypes) : kF32);
                add(to_name(shape), shape, axis, k, false).only(k < 0 ? kI32 : kF16, kFewLayouts);
            }
        }
    }
    if (kRaces) return result;
    // More than a block takes at once; lines whose numbers have two digits.
    add("2x9001", {2, 9001}, 1, -1, false).only(kF32);
    add("2x9001", {2, 9001}, 1, 4000, true).only(kF16);
    add("300x5", {300, 5}, 1, -1, true).only(kF32);
    add("300x5", {300, 5}, 1, 2, false).only(kF32);
    // Several lines at a time, and fewer at the end; one line, which is longer than that.
    add("50x5", {50, 5}, 1, -1, true, 64).only(kWide, kFewLayouts);
    add("50x5", {50, 5}, 1, 2, false, 64).only(kWide, kFewLayouts);
    add("5x50", {5, 50}, 0, 2, true, 64).only(kF32);
    add("3x300", {3, 300}, 1, 40, true, 16).only(kF32);
    return result;
}

const bool rows = add_rows("OrderRows", cases());

using Order = DeviceTest;

/// Keys that differ in each of their bytes alone.
TEST_P(Order, GoesByAllBytesOfAKey) {
    TestArray x(Dtype::i64, {9}), y(Dtype::i64, {9}), first(Dtype::i64, {5});
    for (int i = 0; i < 8; ++i) store_one(std::int64_t{1} << (8 * (7 - i)), x.view().at(i), Dtype::i64);
    store_one(std::int64_t{-1}, x.view().at(8), Dtype::i64);
    const View in = device().put(x), out = device().put(y), top = device().put(first);
    device().run<ArgsortPlan>(in, 0, false, out);
    device().run<TopPlan>(in, 0, true, top);
    device().get(out, y), device().get(top, first);
    EXPECT_EQ(y.values(), (std::vector<double>{8, 7, 6, 5, 4, 3, 2, 1, 0}));
    EXPECT_EQ(first.values(), (std::vector<double>{0, 1, 2, 3, 4}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Order, testing::ValuesIn(kPlaces), place_name);

}  // namespace sort_devices_test
}  // namespace headroom::kernels
