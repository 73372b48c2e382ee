#include <headroom/kernels/reduce/reduce.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <headroom/tests/kernels/reduced_axes.hpp>

namespace headroom::kernels {
namespace reduce_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void sum(Device& device, const View& x, double scale, const View& y, float beta) {
    device.run<SumPlan>(x, scale, y, beta);
}
void extremes(Device& device, const View& x, const View& largest, const View& smallest) {
    device.run<AmaxPlan>(x, largest);
    device.run<AminPlan>(x, smallest);
}

/// A quarter of the sum, and the sum added to what is there, in f32 (f64 if x is). `units`: of x's magnitudes.
Trial sum_trial(const Variant& v, Random& random, const Shape& from, const Shape& to, double units) {
    Trial trial;
    const Dtype wide = compute_dtype(v.dtype);
    const TestArray& x = trial.input(v, from, units < 64 ? normal(random, 1, 0.1) : normal(random));
    Output &y = trial.output(v, to), &total = trial.output(wide, to, v.out, normal(random));
    std::vector<double> sums(static_cast<std::size_t>(to.numel())), magnitudes(sums);
    const auto destination = destinations(from, to);
    for (std::size_t i = 0; i < destination.size(); ++i) {
        const double value = x.get(static_cast<std::int64_t>(i));
        sums[destination[i]] += value, magnitudes[destination[i]] += std::abs(value);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const double bound = units * epsilon(wide) * magnitudes[i] + 0x1p-1000;
        y.expect(0.25 * sums[i], 0.25 * bound);
        total.expect(total.before() + sums[i], bound);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        sum(device, in[0], 0.25, out[0], 0);
        sum(device, in[0], 1, out[1], 1);
    };
    return trial;
}

Trial sum_backward_trial(const Variant& v, Random& random, const Shape& from, const Shape& to) {
    Trial trial;
    const TestArray& dy = trial.input(v, to, normal(random));
    Output &dx = trial.output(v, from), &total = trial.output(Dtype::f32, from, v.out, all(2));
    for (const std::size_t i : destinations(from, to)) {
        const double value = 0.25 * dy.get(static_cast<std::int64_t>(i));
        dx.expect(value, v.dtype == Dtype::f16 ? 0x1p-24 : 0);  // exact but for subnormal numbers
        total.expect(2 + value, 2 * epsilon(Dtype::f32));
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            sum_backward(stream, in[0], 0.25, out[0], 0);
            sum_backward(stream, in[0], 0.25, out[1], 1);
        });
    };
    return trial;
}

Trial extremes_trial(const Variant& v, Random& random, const Shape& from, const Shape& to) {
    Trial trial;
    const TestArray& x = trial.input(v, from, normal(random));
    Output &largest = trial.output(v, to), &smallest = trial.output(v, to);
    largest.value.assign(static_cast<std::size_t>(to.numel()), -kInfinity);
    smallest.value.assign(largest.value.size(), kInfinity);
    largest.error = smallest.error = std::vector<double>(largest.value.size());
    const auto destination = destinations(from, to);
    for (std::size_t i = 0; i < destination.size(); ++i) {
        double &high = largest.value[destination[i]], &low = smallest.value[destination[i]];
        high = std::max(high, x.get(static_cast<std::int64_t>(i)));
        low = std::min(low, x.get(static_cast<std::int64_t>(i)));
    }
    trial.call = [](Device& device, const Views& in, const Views& out) { extremes(device, in[0], out[0], out[1]); };
    return trial;
}

/// The gradient is shared evenly among elements that are equal to the largest, or NaN like it.
Trial extremum_backward_trial(const Variant& v, Random& random, const Shape& from, const Shape& to) {
    Trial trial;
    const auto destination = destinations(from, to);
    const TestArray& x = trial.input(v, from, [&](TestArray& array) {
        array.fill_indices(random, 4);  // many ties
        array.set(3, kNan);
    });
    std::vector<double> largest(static_cast<std::size_t>(to.numel()), -1), ties(largest.size());
    const auto at = [&](std::size_t i) { return x.get(static_cast<std::int64_t>(i)); };
    const auto is_largest = [&](std::size_t i) {
        const double high = largest[destination[i]];
        return at(i) == high || (std::isnan(at(i)) && std::isnan(high));
    };
    for (std::size_t i = 0; i < destination.size(); ++i) {
        double& high = largest[destination[i]];
        if (std::isnan(at(i)) || at(i) > high) high = at(i);
    }
    for (std::size_t i = 0; i < destination.size(); ++i) ties[destination[i]] += is_largest(i) ? 1 : 0;
    trial.input(v, to, [&](TestArray& y) {
        for (std::int64_t i = 0; i < y.numel(); ++i) y.set(i, largest[static_cast<std::size_t>(i)]);
    });
    const TestArray& dy = trial.input(v, to, normal(random));
    Output &dx = trial.output(v, from), &total = trial.output(v, from, normal(random));
    for (std::size_t i = 0; i < destination.size(); ++i) {
        const std::size_t j = destination[i];
        const double value = is_largest(i) ? dy.get(static_cast<std::int64_t>(j)) / ties[j] : 0;
        const double bound = 2 * epsilon(compute_dtype(v.dtype));
        dx.expect(value, bound * std::abs(value));
        total.expect(total.before() + value, bound * (std::abs(total.before()) + std::abs(value)));
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run<ExtremumGradientPlan>(in[0], in[1], in[2], out[0], 0.0f);
        device.run<ExtremumGradientPlan>(in[0], in[1], in[2], out[1], 1.0f);
    };
    return trial;
}

/// The product, that of all but zeros, and how many these are. Of factors near 1; the first one is 0.
Trial product_trial(const Variant& v, Random& random, const Shape& from, const Shape& to) {
    Trial trial;
    const Dtype wide = compute_dtype(v.dtype);
    const TestArray& x = trial.input(v, from, normal(random, 1, 0.1));
    if (x.numel() > 0) trial.in.back().set(0, 0);
    Output &y = trial.output(wide, to, v.out), &nonzero = trial.output(wide, to, v.out), &zeros = trial.output(v, to);
    std::vector<double> products(static_cast<std::size_t>(to.numel()), 1), others(products);
    const auto destination = destinations(from, to);
    for (std::size_t i = 0; i < destination.size(); ++i) {
        const double value = x.get(static_cast<std::int64_t>(i));
        products[destination[i]] *= value, others[destination[i]] *= value == 0 ? 1 : value;
    }
    const double factors =
        static_cast<double>(from.numel()) / static_cast<double>(std::max<std::int64_t>(1, to.numel()));
    for (std::size_t i = 0; i < products.size(); ++i) {
        const double bound = factors * epsilon(wide) * others[i];
        y.expect(products[i], products[i] == 0 ? 0 : bound);
        nonzero.expect(others[i], bound);
        zeros.expect(products[i] == 0 ? 1 : 0, 0);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run<ProductPlan>(in[0], false, out[0]);
        device.run<ProductPlan>(in[0], true, out[1]);
        device.run<ZerosPlan>(in[0], out[2]);
    };
    return trial;
}

/// The sum of squares, the largest, and the sum of exponentials below it, each of which is off by the rounding of its
/// argument, which is below 10, and 4 units of its own.
Trial exp_sum_trial(const Variant& v, Random& random, const Shape& from, const Shape& to, bool infinite) {
    Trial trial;
    const Dtype wide = compute_dtype(v.dtype);
    const TestArray& x = trial.input(v, from, normal(random));
    if (infinite) all(-kInfinity)(trial.in.back());
    Output &squares = trial.output(wide, to, v.out), &largest = trial.output(wide, to, v.out);
    Output& sum = trial.output(wide, to, v.out);
    std::vector<double> totals(static_cast<std::size_t>(to.numel())), sums(totals);
    std::vector<double> highest(totals.size(), -kInfinity);
    const auto destination = destinations(from, to);
    const auto at = [&](std::size_t i) { return x.get(static_cast<std::int64_t>(i)); };
    for (std::size_t i = 0; i < destination.size(); ++i) {
        totals[destination[i]] += at(i) * at(i);
        highest[destination[i]] = std::max(highest[destination[i]], at(i));
    }
    for (std::size_t i = 0; i < destination.size(); ++i) {
        const double shift = highest[destination[i]];
        sums[destination[i]] += std::exp(at(i) - (std::isfinite(shift) ? shift : 0));
    }
    const double terms = wide == Dtype::f64 ? static_cast<double>(from.numel()) + 64 : 64;
    for (std::size_t i = 0; i < totals.size(); ++i) {
        squares.expect(totals[i], terms * epsilon(wide) * (infinite ? 0 : totals[i]));
        largest.expect(highest[i], 0);
        sum.expect(sums[i], (terms + 14) * epsilon(wide) * sums[i]);
    }
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run<SquaresPlan>(in[0], out[0]);
        device.run<ExpSumPlan>(in[0], out[1], out[2]);
    };
    return trial;
}

// Rows: by threads, warps and blocks, in several parts, with runs and rests. Columns: narrow and wide, in several tiles
// and parts. Both; sizes of 1, nothing to reduce.
const ReducedAxes kAxes[] = {{{5, 7}, {5, 1}},
                             {{5, 7}, {1, 7}},
                             {{5, 7}, {7}},
                             {{5, 7}, {1, 1}},
                             {{3, 4, 5}, {3, 1, 5}},
                             {{3, 4, 5}, {1, 4, 1}},
                             {{2, 3, 4, 5}, {1, 3, 1, 5}},
                             {{2, 3, 4, 5}, {2, 1, 4, 1}},
                             {{2, 3, 2, 3, 2, 3}, {2, 1, 1, 3, 1, 3}},
                             {{4, 1}, {4, 1}},
                             {{}, {}},
                             {{3, 4}, {3, 4}},
                             {{70, 33}, {70, 1}},
                             {{20, 64}, {20, 1}},
                             {{3, 1025}, {3, 1}},
                             {{2, 5000}, {2, 1}},
                             {{4, 3, 1032}, {1, 3, 1}},
                             {{16403}, {1}},
                             {{2, 16400}, {2, 1}},
                             {{600, 3}, {3}},
                             {{1030, 40}, {40}},
                             {{300, 520}, {1, 520}},
                             {{2, 17, 24}, {2, 1, 24}}};

Cases cases() {
    Cases result;
    for (const ReducedAxes& axes : kAxes) {
        result.add("sum" + axes.name(), sum_trial, axes.x, axes.y, 64).only(kFloating, layouts_for(axes.x));
        result.add("extremes" + axes.name(), extremes_trial, axes.x, axes.y).only(kFloating, layouts_for(axes.x));
    }
    for (const ReducedAxes& axes :
         {ReducedAxes{{0, 3}, {1, 3}}, ReducedAxes{{3, 0}, {3, 1}}, ReducedAxes{{0, 3}, {0, 1}}}) {
        result.add("sum" + axes.name(), sum_trial, axes.x, axes.y, 64).only(kFloating);
    }
    for (const ReducedAxes& axes :
         {ReducedAxes{{5, 7}, {5, 1}}, ReducedAxes{{3, 4, 5}, {1, 4, 1}}, ReducedAxes{{3, 1025}, {3, 1}},
          ReducedAxes{{600, 3}, {3}}, ReducedAxes{{2, 17, 24}, {2, 1, 24}}, ReducedAxes{{2049}, {1}},
          ReducedAxes{{70, 33}, {33}}, ReducedAxes{{0, 3}, {1, 3}}}) {
        result.add("product" + axes.name(), product_trial, axes.x, axes.y).only(kFloating, layouts_for(axes.x));
        result.add("exp_sum" + axes.name(), exp_sum_trial, axes.x, axes.y, false).only(kFloating, layouts_for(axes.x));
    }
    result.add("exp_sum/of_minus_infinity", exp_sum_trial, Shape{3, 40}, Shape{3, 1}, true).only(kFloating);
    result.add("product/20005_to_1", product_trial, Shape{20005}, Shape{1}).only(kWide);
    result.add("exp_sum/20005_to_1", exp_sum_trial, Shape{20005}, Shape{1}, false).only(kFloating);
    // An error that does not grow with the length.
    for (const ReducedAxes& axes :
         {ReducedAxes{{1 << 18}, {1}}, ReducedAxes{{1 << 16, 4}, {4}}, ReducedAxes{{3, 1 << 16}, {3, 1}}}) {
        result.add("long_sum" + axes.name(), sum_trial, axes.x, axes.y, 4).only(kF32).large = true;
    }
    for (const ReducedAxes& axes :
         {ReducedAxes{{1 << 20}, {1}}, ReducedAxes{{7, 30000}, {7, 1}}, ReducedAxes{{100, 5000}, {5000}}}) {
        result.add("threads" + axes.name(), sum_trial, axes.x, axes.y, 64).only(kF32).only_on(kPlaces[0]);
    }
    for (const ReducedAxes& axes :
         {ReducedAxes{{5, 7}, {5, 1}}, ReducedAxes{{3, 64}, {1, 64}}, ReducedAxes{{9, 64}, {9, 1}},
          ReducedAxes{{77}, {1}}, ReducedAxes{{40, 24}, {24}}, ReducedAxes{{300, 5}, {5}}, ReducedAxes{{4133}, {1}}}) {
        result.add("sum_backward" + axes.name(), sum_backward_trial, axes.x, axes.y);
        result.add("extremum_backward" + axes.name(), extremum_backward_trial, axes.x, axes.y);
    }
    for (const ReducedAxes& axes : {ReducedAxes{{16403}, {1}}, ReducedAxes{{700, 40}, {40}}}) {
        result.add("extremum_backward" + axes.name(), extremum_backward_trial, axes.x, axes.y).only(kFloating);
    }
    return result;
}

const bool rows = add_rows("ReduceRows", cases());

class Reduce : public DeviceTest {
  protected:
    TestArray sum_of(const View& x, Dtype dtype, const Shape& to) {
        TestArray y(dtype, to);
        const View out = device().put(y);
        sum(device(), x, 1, out, 0);
        device().get(out, y);
        return y;
    }
};

TEST_P(Reduce, SumTakesPartsOfRowsBroadcastAndReversedInputs) {
    TestArray x(Dtype::bf16, {700, 56});
    x.fill(random);
    const View whole = device().put(x);
    const auto check = [&](const Shape& shape, const Strides& strides, std::int64_t begin, const Shape& to) {
        const View part{whole.at(begin), whole.dtype, shape, strides},
            same{x.view().at(begin), Dtype::bf16, shape, strides};
        const TestArray y = sum_of(part, Dtype::f32, to);
        std::vector<double> sums(static_cast<std::size_t>(to.numel())), magnitudes(sums);
        const auto destination = destinations(shape, to);
        for (std::size_t i = 0; i < destination.size(); ++i) {
            const double value = load_one<double>(same.at(offset_of(same, static_cast<std::int64_t>(i))), same.dtype);
            sums[destination[i]] += value, magnitudes[destination[i]] += std::abs(value);
        }
        for (std::size_t i = 0; i < sums.size(); ++i) {
            EXPECT_NEAR(y.get(static_cast<std::int64_t>(i)), sums[i], 4 * epsilon(Dtype::f32) * magnitudes[i])
                << describe(part) << " " << i;
        }
    };
    check({700, 52}, {56, 1}, 0, {52});  // the last group of columns is cut off
    check({700, 52}, {56, 1}, 4, {1, 52});
    check({700, 53}, {56, 1}, 0, {700, 1});  // as are rows
    check({350, 2, 48}, {112, 56, 1}, 0, {2, 1});
    check({5, 56}, {0, 1}, 0, {56});
    check({5, 56}, {0, 1}, 0, {1, 1});
    check({5, 56}, {0, 1}, 0, {5, 1});
    check({3, 56}, {56, -1}, 55, {56});
    check({700, 56}, {-56, -1}, 700 * 56 - 1, {700, 1});
}

TEST_P(Reduce, SumOfIntegersAndBoolsIsExact) {
    TestArray integers(Dtype::i64, {3}), flags(Dtype::boolean, {4000}), numbers(Dtype::i32, {300, 3});
    for (int i = 0; i < 3; ++i) integers.set(i, 1e15 + i);
    EXPECT_EQ(sum_of(device().put(integers), Dtype::i64, {1}).get_integer(0), 3000000000000003);
    number(flags);
    EXPECT_EQ(sum_of(device().put(flags), Dtype::f32, {1}).get(0), 2000);
    for (int i = 0; i < 900; ++i) numbers.set(i, 100000 * (i % 3));
    EXPECT_EQ(sum_of(device().put(numbers), Dtype::i32, {3}).values(), (std::vector<double>{0, 3e7, 6e7}));
}

TEST_P(Reduce, ExtremesAreNanIfOneElementIsWhereverItStands) {
    for (const Shape& shape : {Shape{1, 100}, Shape{100, 1}, Shape{10, 10}}) {
        for (std::int64_t i = 0; i < 100; ++i) {
            TestArray x(Dtype::f32, shape), y(Dtype::f32, {1, 1}), z(y);
            for (std::int64_t j = 0; j < 100; ++j) x.set(j, j % 3 == 0 ? -kInfinity : kInfinity);
            x.set(i, kNan);
            y.set(0, 0), z.set(0, 0);
            const View high = device().put(y), low = device().put(z);
            extremes(device(), device().put(x), high, low);
            device().get(high, y), device().get(low, z);
            ASSERT_TRUE(std::isnan(y.get(0)) && std::isnan(z.get(0))) << i;
        }
    }
}

TEST_P(Reduce, SumHasTheSameBitsWhereverTheArrayBegins) {
    for (const Dtype dtype : kFloating) {
        for (const ReducedAxes& axes :
             {ReducedAxes{{1030, 40}, {40}}, ReducedAxes{{20005}, {1}}, ReducedAxes{{7, 1024}, {7, 1}}}) {
            TestArray x(dtype, axes.x), moved(dtype, axes.x, Layout::shifted);
            x.fill(random);
            for (std::int64_t i = 0; i < x.numel(); ++i) moved.set(i, x.get(i));
            EXPECT_EQ(sum_of(device().put(x), Dtype::f32, axes.y).memory(),
                      sum_of(device().put(moved), Dtype::f32, axes.y).memory())
                << describe(x);
        }
    }
}

/// Beside 2^24 a one is lost in f32: a GPU's thread that meets it loses 31 at most before it goes on in f64.
TEST_P(Reduce, SumMovesOnToF64) {
    TestArray x(Dtype::f32, {2, 16383});  // rows of single elements
    all(1)(x);
    x.set(0, 0x1p24);
    const double total = sum_of(device().put(x), Dtype::f64, {2, 1}).get(0);
    EXPECT_LE(total, 0x1p24 + 16382);
    EXPECT_GE(total, 0x1p24 + 16382 - (on_gpu() ? 31 : 1024));
}

INSTANTIATE_TEST_SUITE_P(Devices, Reduce, testing::ValuesIn(kPlaces), place_name);

TEST(ReduceScratch, IsOnAGpuWhereSumsHaveParts) {
    Stream cuda = DryStream{.capability = 90}, cpu = CpuStream{};
    const View x = contiguous_view(nullptr, Dtype::f32, {1030, 40}), y = contiguous_view(nullptr, Dtype::f32, {40});
    EXPECT_GT(SumPlan(cuda, x, 1, y, 0).scratch(), 0u);
    EXPECT_EQ(SumPlan(cpu, x, 1, y, 0).scratch(), 0u);
}

}  // namespace reduce_devices_test
}  // namespace headroom::kernels
