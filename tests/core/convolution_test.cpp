// What conv2d computes behind the convolution itself; gradients, layouts and errors are the samples' (gradients_test,
// rejected_test) and reference_ops_test's. And what conv1d refuses.
#include <headroom/core/ops/convolution.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace convolution_test {

struct Case {
    Shape x, weight;
    Conv2dOptions options;
};

/// By oneDNN, by our own kernel, 1 x 1, depthwise.
const Case kCases[] = {{{2, 32, 14, 14}, {48, 32, 3, 3}, {.padding = 1}},
                       {{2, 3, 6, 5}, {4, 3, 3, 2}, {.stride = {2, 1}}},
                       {{2, 64, 8, 8}, {16, 64, 1, 1}, {}},
                       {{1, 32, 12, 12}, {32, 1, 3, 3}, {.padding = 1, .groups = 32}}};

struct Result {
    std::vector<float> y, dx, dweight, dbias;
    std::size_t peak = 0;

    bool operator==(const Result&) const = default;
};

/// `fused`: by one op.
Result convolve(const Case& c, Dtype dtype, bool fused) {
    Context context = Context::cpu({.threads = 2, .seed = 5});
    const auto draw = [&](const Shape& shape) { return cast(randn(context, shape), dtype).detach().requires_grad_(); };
    const Tensor x = draw(c.x), weight = draw(c.weight), bias = draw({c.weight[0]});
    Conv2dOptions options = c.options;
    options.relu = fused;
    Tensor y = conv2d(x, weight, bias, options);
    if (!fused) y = relu(std::move(y));
    Result result;
    result.y = y.to_vector<float>();
    Tensor loss = sum(square(cast(std::move(y), Dtype::f32)));
    backward(std::move(loss));
    result.dx = x.grad().to_vector<float>(), result.dweight = weight.grad().to_vector<float>();
    result.dbias = bias.grad().to_vector<float>();
    result.peak = context.memory().statistics().peak_allocated;
    return result;
}

TEST(Conv2dWithRelu, HasTheBitsAndTheMemoryOfTwoOps) {
    for (const Case& c : kCases) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
            SCOPED_TRACE(c.x.to_string() + " " + std::string(name(dtype)));
            const Result one = convolve(c, dtype, true), two = convolve(c, dtype, false);
            EXPECT_EQ(one, two);
            EXPECT_EQ(std::count_if(one.y.begin(), one.y.end(), [](float y) { return y < 0; }), 0);
            EXPECT_NE(std::count(one.y.begin(), one.y.end(), 0.0f), 0);
        }
    }
}

/// A step whose activations are not finite has to show that.
TEST(Conv2dWithRelu, KeepsWhatIsNoNumber) {
    for (const Case& c : kCases) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            Context context = Context::cpu({.threads = 2});
            const float nan = std::numeric_limits<float>::quiet_NaN();
            const Tensor x = full(context, c.x, nan, dtype), weight = full(context, c.weight, 1.0, dtype);
            Conv2dOptions options = c.options;
            options.relu = true;
            for (const float y : conv2d(x, weight, {}, options).to_vector<float>()) ASSERT_TRUE(std::isnan(y));
        }
    }
}

/// As the program wrote it, not as the images that it is computed as.
TEST(Conv1d, RefusesChannelsByTheShapeOfASequence) {
    Context context = Context::cpu({.threads = 1});
    const auto convolved = [&](const Shape& x, const Shape& weight, std::int64_t groups = 1) {
        return
            [&context, x, weight, groups] { conv1d(ones(context, x), ones(context, weight), {}, {.groups = groups}); };
    };
    EXPECT_THAT(convolved({2, 10, 12}, {32, 12, 5}),
                test::throws<ShapeError>("conv1d: x [2, 10, 12] [n, c, l] has 10 channels, but weight [32, 12, 5] "
                                         "takes 12; if channels come last, use x.transpose(1, 2)"));
    EXPECT_THAT(convolved({2, 10, 9}, {32, 6, 5}, 2),
                test::throws<ShapeError>("has 10 channels, but weight [32, 6, 5] takes 12 in 2 groups"));
    EXPECT_THAT(convolved({2, 3, 9}, {5, 3, 2}, 0), test::throws<ShapeError>("conv1d: 0 groups do not divide"));
}

}  // namespace convolution_test
}  // namespace headroom
