#include <headroom/kernels/softmax/softmax.hpp>

#include <cmath>
#include <limits>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace softmax_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void forward(Device& device, bool logarithm, const View& x, const View& y) {
    device.run([&](auto& stream) { logarithm ? log_softmax(stream, x, y) : softmax(stream, x, y); });
}

void backward(Device& device, bool logarithm, const View& y, const View& dy, const View& dx, float beta) {
    device.run([&](auto& stream) {
        logarithm ? log_softmax_backward(stream, y, dy, dx, beta) : softmax_backward(stream, y, dy, dx, beta);
    });
}

Trial forward_trial(const Variant& v, Random& random, const Shape& shape, bool logarithm) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, normal(random, 3, 4));
    Output& y = trial.output(v, shape);
    y.over = 0;
    const std::int64_t length = shape.back();
    for (std::int64_t row = 0; row < x.numel(); row += length) {
        double largest = -kInfinity, sum = 0;
        for (std::int64_t i = row; i < row + length; ++i) largest = std::max(largest, x.get(i));
        for (std::int64_t i = row; i < row + length; ++i) sum += std::exp(x.get(i) - largest);
        for (std::int64_t i = row; i < row + length; ++i) {
            // Of the sum, its additions; of the exponential, 2 ulp and what the rounding of its argument does.
            const double distance = x.get(i) - largest, p = std::exp(distance) / sum;
            const double relative = epsilon(compute_dtype(v.dtype)) * (length / 8.0 + 16 + 2 * std::abs(distance));
            logarithm ? y.expect(distance - std::log(sum), relative) : y.expect(p, relative * p);
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) { forward(device, logarithm, in[0], out[0]); };
    return trial;
}

/// Into a gradient of the same dtype, and added to one in f32. `spread`: dy is one number, broadcast.
Trial backward_trial(const Variant& v, Random& random, const Shape& shape, bool logarithm, bool spread) {
    Trial trial;
    const TestArray& y = trial.input(v, shape, [&](TestArray& array) {
        TestArray x(Dtype::f64, shape), exact(Dtype::f64, shape);
        x.fill(random);
        Device cpu(Place::cpu);
        forward(cpu, logarithm, x, exact);
        for (std::int64_t i = 0; i < x.numel(); ++i) array.set(i, exact.get(i));
    });
    const TestArray& dy = trial.input(v, spread ? Shape{} : shape, normal(random));
    Output &dx = trial.output(v, shape), &sum = trial.output(Dtype::f32, shape, v.out, all(2));
    if (!spread) dx.over = 1;
    const std::int64_t length = shape.back();
    const double bound = epsilon(compute_dtype(v.dtype)) * 8 * (static_cast<double>(length) + 8);
    const auto upstream = [&](std::int64_t i) { return dy.get(spread ? 0 : i); };
    for (std::int64_t row = 0; row < y.numel(); row += length) {
        double total = 0;
        for (std::int64_t i = row; i < row + length; ++i) total += upstream(i) * (logarithm ? 1 : y.get(i));
        for (std::int64_t i = row; i < row + length; ++i) {
            const double value =
                logarithm ? upstream(i) - std::exp(y.get(i)) * total : y.get(i) * (upstream(i) - total);
            dx.expect(value, bound);
            sum.expect(2 + value, bound + epsilon(Dtype::f32) * 8);
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const View over_all = broadcast_to(in[1], shape);
        backward(device, logarithm, in[0], over_all, out[1], 1);
        backward(device, logarithm, in[0], over_all, out[0], 0);
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kLong[] = {Dtype::f32, Dtype::bf16, Dtype::f64};
    Cases result;
    for (const bool logarithm : {false, true}) {
        const std::string one = logarithm ? "log_forward/" : "forward/",
                          two = logarithm ? "log_backward/" : "backward/";
        // A lane, vectors and their rests, parts of a warp, several warps, one chunk, several.
        for (const Shape& shape :
             {Shape{3, 1}, Shape{3, 5}, Shape{5, 31}, Shape{2, 2, 64}, Shape{9, 33}, Shape{2, 1023}, Shape{2, 1024},
              Shape{3, 1025}, Shape{2, 3000}, Shape{7}, Shape{0, 3}, Shape{3, 0}}) {
            result.add(one + to_name(shape), forward_trial, shape, logarithm);
            result.add(two + to_name(shape), backward_trial, shape, logarithm, false);
        }
        // Rows that a GPU's registers do not hold; rows for several threads.
        for (const Shape& shape : {Shape{1, 16423}, Shape{1, 33021}, Shape{300, 77}}) {
            result.add(one + to_name(shape), forward_trial, shape, logarithm).only(kLong);
            result.add(two + to_name(shape), backward_trial, shape, logarithm, false).only(kLong);
        }
        result.add(two + "of_a_scalar", backward_trial, Shape{3, 70}, logarithm, true);
    }
    return result;
}

const bool rows = add_rows("SoftmaxRows", cases());

class Softmax : public DeviceTest {
  protected:
    TestArray result(const TestArray& x, bool logarithm = false) {
        TestArray y(x.view().dtype, x.view().shape);
        const View in = device().put(x), out = device().put(y);
        forward(device(), logarithm, in, out);
        device().get(out, y);
        return y;
    }
};

TEST_P(Softmax, NeitherOverflowsNorMindsMaskedElements) {
    for (const std::int64_t length : {4, 3000, 17000}) {
        TestArray x(Dtype::f32, {1, length});
        all(-kInfinity)(x);
        x.set(length - 1, 3e38), x.set(length - 2, 3e38);
        const TestArray y = result(x), z = result(x, true);
        EXPECT_EQ(y.get(0), 0);
        EXPECT_EQ(z.get(0), -kInfinity);
        EXPECT_EQ(y.get(length - 1), 0.5);
        EXPECT_NEAR(z.get(length - 2), -std::log(2.0), 1e-7);
    }
}

TEST_P(Softmax, OfNanOrInfinityOrNothingButMaskIsNan) {
    for (const std::int64_t length : {4, 3000, 17000}) {
        for (const double value : {kNan, kInfinity, -kInfinity}) {
            for (const std::int64_t place : {length / 2, length - 1}) {
                TestArray x(Dtype::f32, {1, length});
                all(value == -kInfinity ? value : 0)(x);
                x.set(place, value);
                EXPECT_TRUE(std::isnan(result(x).get(place)));
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Softmax, testing::ValuesIn(kPlaces), place_name);

}  // namespace softmax_devices_test
}  // namespace headroom::kernels
