// Matrix products as ops launch them: strided and broadcast operands, sums over batches, gradients that go straight to
// their place.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/internal/run_matmul.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/parameters.hpp>

namespace headroom {
namespace run_matmul_test {

std::vector<double> waves(std::int64_t count, double phase) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(phase + 1.3 * static_cast<double>(i)));
    return values;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double bound) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], bound) << "element " << i;
}

class ProductsTest : public ::testing::Test {
  protected:
    Tensor leaf(const Shape& shape, double phase) {
        return context.from_host(waves(shape.numel(), phase), shape).requires_grad_();
    }
    Tensor copy_of(const Tensor& x) { return context.from_host(x.to_vector<double>(), x.shape()).requires_grad_(); }
    std::size_t allocated() { return context.memory().statistics().allocated; }

    Context context = Context::cpu({.threads = 2});
};

struct Layout {
    const char* name;
    Shape shape;
    Tensor (*view)(const Tensor& x);
};

/// Inputs whose leading axes can and can't be seen as one.
const Layout kLayouts[] = {
    {"transposed time and batch", {3, 2, 5}, [](const Tensor& x) { return x.transpose(0, 1); }},
    {"every other position", {2, 6, 5}, [](const Tensor& x) { return x.slice(1, 0, 6, 2); }},
    {"part of the features", {2, 3, 9}, [](const Tensor& x) { return x.slice(2, 2, 7); }},
    {"features first",
     {5, 2, 3},
     [](const Tensor& x) {
         return x.permute({1, 2, 0});
     }},
    {"four axes, mixed",
     {2, 3, 2, 5},
     [](const Tensor& x) {
         return x.permute({2, 0, 1, 3});
     }},
    {"one vector", {3, 5}, [](const Tensor& x) { return x.select(0, 1); }},
};

TEST_F(ProductsTest, LinearTakesAnyLayout) {
    for (const Layout& layout : kLayouts) {
        SCOPED_TRACE(layout.name);
        Tensor base = leaf(layout.shape, 0), weight = leaf({4, 5}, 1), bias = leaf({4}, 2);
        const Tensor x = layout.view(base);
        Tensor dense = copy_of(x), weight2 = copy_of(weight), bias2 = copy_of(bias);
        const Tensor y = linear(x, weight, bias), expected = linear(dense, weight2, bias2);
        expect_near(y.to_vector<double>(), expected.to_vector<double>(), 1e-14);
        const Tensor dy = leaf(y.shape(), 3).requires_grad_(false);
        backward({sum(y * dy), sum(expected * dy)}, {1.0, 1.0});
        expect_near(layout.view(base.grad()).to_vector<double>(), dense.grad().to_vector<double>(), 1e-14);
        expect_near(weight.grad().to_vector<double>(), weight2.grad().to_vector<double>(), 1e-13);
        expect_near(bias.grad().to_vector<double>(), bias2.grad().to_vector<double>(), 1e-13);
    }
}

TEST_F(ProductsTest, SumsOverBatchesAsOneProductOrInTurn) {
    const Array c = context.exec().empty({2, 3}, Dtype::f64);
    const Tensor a = leaf({4, 3, 2, 5}, 0), b = leaf({4, 3, 5, 3}, 1);
    Tensor each = matmul(a, b);
    const std::vector<double> want = sum(each, {0, 1}).to_vector<double>();
    const Tensor views[][2] = {{a, b},
                               {copy_of(a.transpose(0, 1)).transpose(0, 1), b},
                               {copy_of(a.permute({2, 0, 1, 3})).permute({1, 2, 0, 3}), b}};
    for (const auto& [left, right] : views) {
        run_matmul_to(context.exec(), left.array().view(), right.array().view(), c.view(), 0.0f);
        expect_near(context.from_array(c).to_vector<double>(), want, 1e-13);
        run_matmul_to(context.exec(), left.array().view(), right.array().view(), c.view(), 1.0f);
        run_matmul_to(context.exec(), left.array().view(), right.array().view(), c.view(), 1.0f);
        std::vector<double> thrice = want;
        for (double& value : thrice) value *= 3;
        expect_near(context.from_array(c).to_vector<double>(), thrice, 1e-13);
    }
}

TEST_F(ProductsTest, ABroadcastOperandOfNoBatchesGetsAGradientOfZero) {
    Tensor a = leaf({0, 2, 3}, 0), b = leaf({3, 2}, 1);
    backward(sum(matmul(a, b)));
    EXPECT_EQ(b.grad().to_vector<double>(), std::vector<double>(6, 0.0));
}

TEST_F(ProductsTest, WeightGradientsLandInTheirSegmentWithoutATemporary) {
    Parameters parameters(context);
    const auto ones = [](Exec& exec, const Array& array, const kernels::RandomKey&) {
        exec.launch([&](auto&) { std::fill_n(array.view().as<float>(), array.numel(), 1.0f); });
    };
    const Tensor weight = parameters.create("weight", {64, 32}, ones);
    const Tensor bias = parameters.create("bias", {64}, ones);
    parameters.fill_unreached();
    Tensor x = context.from_host(std::vector<float>(16 * 32, 0.5f), {16, 32});
    const std::size_t before = allocated();
    std::size_t peaks[2];
    for (std::size_t& peak : peaks) {
        const Tensor loss = sum(linear(x, weight, bias));
        context.memory().reset_peak();
        backward(loss);
        peak = context.memory().statistics().peak_allocated;
    }
    EXPECT_EQ(allocated(), before);
    EXPECT_EQ(peaks[0], peaks[1]) << "a second micro-batch costs no byte more";
    const Array& gradient = weight.value()->grad;
    EXPECT_TRUE(gradient.buffer.same(parameters.segments()[0].gradients.buffer));
    EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(64 * 32, 16.0f));
    EXPECT_EQ(bias.grad().to_vector<float>(), std::vector<float>(64, 32.0f));
}

TEST_F(ProductsTest, AnInputsGradientTakesOverItsStorageUnlessSomebodyHoldsIt) {
    const std::size_t bytes = std::size_t{4096} * 64 * sizeof(float);
    Tensor x = context.from_host(std::vector<float>(4096 * 64, 0.5f), {4096, 64}).requires_grad_();
    Tensor weight = context.from_host(std::vector<float>(2 * 64, 3.0f), {2, 64}).requires_grad_();
    for (const bool held : {false, true}) {
        Tensor hidden = x * 2.0;
        const Tensor loss = sum(linear(hidden, weight));
        if (!held) hidden.reset();
        const std::size_t before = allocated();
        context.memory().reset_peak();
        backward(loss);
        const std::size_t more = context.memory().statistics().peak_allocated - before;
        if (!held) {
            EXPECT_LT(more, bytes / 4);
        } else {
            EXPECT_GE(more, bytes);
            EXPECT_EQ(hidden.to_vector<float>(), std::vector<float>(4096 * 64, 1.0f));
        }
        EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(4096 * 64, 12.0f));
        x.zero_grad();
    }
}

TEST_F(ProductsTest, HalfOperandsWriteStraightIntoAnF32Gradient) {
    std::vector<float> values(64, 0.0f);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8) - 3.0f;
    Tensor weight = context.from_host(values, {8, 8}).requires_grad_();
    Tensor x = context.from_host(values, {8, 8});
    Tensor loss;
    {
        const Autocast half(context, Dtype::bf16);
        const Tensor y = linear(x, weight);
        EXPECT_EQ(y.dtype(), Dtype::bf16);
        loss = sum(y);
    }
    const std::uint64_t before = context.tape().statistics().backward;
    backward(loss, 1.0 / 256);
    EXPECT_EQ(context.tape().statistics().backward - before, 2u) << "the cast's own backward has nothing to do";
    EXPECT_EQ(weight.grad().dtype(), Dtype::f32);
    std::vector<double> want;
    for (int i = 0; i < 64; ++i) want.push_back((i % 8 - 3) * 8 / 256.0);
    EXPECT_EQ(weight.grad().to_vector<double>(), want);
}

TEST_F(ProductsTest, MixedF32AndF64GiveGradientsOfTheirOwnDtypes) {
    Tensor weight = context.from_host(std::vector<float>{1, 2, 3, 4}, {2, 2}).requires_grad_();
    Tensor x = leaf({3, 2}, 0);
    const Tensor y = linear(x, weight);
    EXPECT_EQ(y.dtype(), Dtype::f64);
    backward(sum(y));
    EXPECT_EQ(weight.grad().dtype(), Dtype::f32);
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 6, 4, 6, 4, 6}));
    const std::vector<double> columns = sum(x, 0).to_vector<double>();
    expect_near(weight.grad().to_vector<double>(), {columns[0], columns[1], columns[0], columns[1]}, 0x1p-23);
}

}  // namespace run_matmul_test
}  // namespace headroom
