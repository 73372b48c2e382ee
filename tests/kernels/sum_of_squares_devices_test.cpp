#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>

#include <cmath>
#include <limits>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace sum_of_squares_devices_test {

using namespace test;

void squares(Device& device, const View& x, const View& result, float beta) {
    device.run<SumOfSquaresPlan>(x, result, beta);
}

/// The sum, and the sum added to itself.
Trial squares_trial(const Variant& v, Random& random, std::int64_t size) {
    Trial trial;
    const TestArray& x = trial.input(v, {size}, normal(random));
    double sum = 0;
    for (const double value : x.values()) sum += value * value;
    trial.output(Dtype::f64, {}, v.out).expect(sum, 1e-12 * sum);
    trial.output(Dtype::f64, {1}, v.out, all(3)).expect(3 + sum, 1e-12 * (3 + sum));
    trial.call = [](Device& device, const Views& in, const Views& out) {
        squares(device, in[0], out[0], 0);
        squares(device, in[0], out[1], 1);
    };
    return trial;
}

Cases cases() {
    static constexpr Layouts kAnywhere[] = {{Layout::contiguous, Layout::contiguous},
                                            {Layout::shifted, Layout::contiguous}};
    Cases result;
    for (const std::int64_t size : {0, 1, 7, 31, 33, 1023, 1025, 16383, 32768, 100003, 300001}) {
        result.add(std::to_string(size), squares_trial, size).only(kFloating, kAnywhere).large = size > 100003;
    }
    return result;
}

const bool rows = add_rows("SumOfSquaresRows", cases());

class Norm : public DeviceTest {
  protected:
    TestArray squares_of(const TestArray& x) {
        TestArray result(Dtype::f64, {});
        const View to = device().put(result);
        squares(device(), device().put(x), to, 0);
        device().get(to, result);
        return result;
    }
    bool finite(const TestArray& x) {
        std::byte* scratch = device().scratch([&](Stream& stream) { return all_finite_scratch(stream); });
        bool result = false;
        const View view = device().put(x);
        device().run([&](auto& stream) { result = all_finite(stream, view, scratch); });
        return result;
    }
};

TEST_P(Norm, SumOfSquaresHasTheSameBitsWhereverTheArrayBegins) {
    for (const Dtype dtype : kFloating) {
        TestArray x(dtype, {50005}), moved(dtype, {50005}, Layout::shifted);
        x.fill(random);
        for (std::int64_t i = 0; i < x.numel(); ++i) moved.set(i, x.get(i));
        EXPECT_EQ(squares_of(x).memory(), squares_of(moved).memory());
    }
}

TEST_P(Norm, SumOfSquaresIsFiniteIfAndOnlyIfEveryElementIs) {
    TestArray x(Dtype::f32, {40001});
    all(std::numeric_limits<float>::max())(x);
    EXPECT_NEAR(std::sqrt(squares_of(x).get(0) / 40001), std::numeric_limits<float>::max(), 1e26);
    for (const std::int64_t i : {0, 20000, 40000}) {
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
            TestArray broken(x);
            broken.set(i, bad);
            EXPECT_FALSE(std::isfinite(squares_of(broken).get(0))) << i;
        }
    }
}

TEST_P(Norm, AllFiniteFindsOneBadElementAnywhere) {
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 50}, Shape{2, 5001}, Shape{9000, 1}}) {
                TestArray x(dtype, shape, layout);
                for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, i % 2 == 0 ? 60000 : -1e-7);
                ASSERT_TRUE(finite(x)) << describe(x);
                for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
                    for (const std::int64_t i : {std::int64_t{0}, x.numel() / 2, x.numel() - 1}) {
                        const double before = x.get(i);
                        x.set(i, bad);
                        ASSERT_FALSE(finite(x)) << describe(x) << " " << i;
                        x.set(i, before);
                    }
                }
            }
        }
    }
    EXPECT_TRUE(finite(TestArray(Dtype::f32, {0})));
}

INSTANTIATE_TEST_SUITE_P(Devices, Norm, testing::ValuesIn(kPlaces), place_name);

TEST(NormScratch, IsASumForEachPartOnAGpu) {
    Stream cuda = DryStream{.capability = 90}, cpu = CpuStream{};
    const View x{nullptr, Dtype::f32, {100003}, {1}};
    EXPECT_EQ(SumOfSquaresPlan(cuda, x, {}, 0).scratch(), 6 * sizeof(double));
    EXPECT_EQ(SumOfSquaresPlan(cpu, x, {}, 0).scratch(), 0u);
    EXPECT_EQ(all_finite_scratch(cpu), 0u);
}

}  // namespace sum_of_squares_devices_test
}  // namespace headroom::kernels
