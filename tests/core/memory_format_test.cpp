// Values whose axes stand in memory in another order than in their shape: what hands the order on, what it costs, and
// what it does not change.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/arrange.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cumsum.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/logsumexp.hpp>
#include <headroom/core/ops/norm.hpp>
#include <headroom/core/ops/prod.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace memory_format_test {

using ::testing::HasSubstr;
using Doubles = std::vector<double>;

constexpr auto kChannelsLast = MemoryFormat::channels_last;
const Shape kShape{2, 3, 4, 5};

Tensor rows_of(Context& context) {
    Doubles values;
    for (int i = 0; i < 120; ++i) values.push_back(0.01 * (i * 37 % 120) - 0.5);
    return context.from_host(values, kShape);
}

/// A leaf with the same numbers, channels-last.
Tensor images_of(Context& context) {
    const NoGradGuard no_grad(context);
    return context.from_array(rows_of(context).contiguous(kChannelsLast).array());
}

class MemoryFormats : public ::testing::Test {
  protected:
    void SetUp() override { context.memory().start_history(10'000); }
    /// The blocks that conversions were given, as a report of the history has them.
    int conversions() {
        const PathId op = context.memory().intern("contiguous");
        int count = 0;
        for (const memory::MemoryEvent& event : context.memory().snapshot().events) {
            count += event.kind == memory::MemoryEvent::Kind::allocate && event.op == op ? 1 : 0;
        }
        return count;
    }

    Context context = Context::cpu({.threads = 1, .seed = 3});
    Tensor rows = rows_of(context);
    Tensor images = images_of(context);
};

TEST_F(MemoryFormats, AConversionIsARecordedCopyWhereOneIsNeeded) {
    EXPECT_EQ(conversions(), 0);
    const Tensor y = rows.contiguous(kChannelsLast);
    EXPECT_EQ(conversions(), 1);
    EXPECT_EQ(y.shape(), kShape);
    EXPECT_EQ(y.strides(), (Strides{60, 1, 15, 3}));
    EXPECT_TRUE(y.is_contiguous(kChannelsLast));
    EXPECT_FALSE(y.is_contiguous());
    EXPECT_FALSE(rows.is_contiguous(kChannelsLast));
    EXPECT_EQ(y.to_vector<double>(), rows.to_vector<double>());
    EXPECT_EQ(y.value(), y.contiguous(kChannelsLast).value());
    EXPECT_EQ(y.value(), y.permute({0, 2, 3, 1}).contiguous().value());
    EXPECT_EQ(y.value(), y.permute({0, 2, 3, 1}).reshape({-1, 3}).value());
    EXPECT_EQ(conversions(), 1);
    EXPECT_EQ(y.contiguous().to_vector<double>(), rows.to_vector<double>());
    EXPECT_EQ(y.reshape({6, 20}).to_vector<double>(), rows.to_vector<double>());
    EXPECT_EQ(conversions(), 3);
    // Of one channel, or one pixel, both orders are the same.
    const Tensor mask = mean(images, {1}, true), pixel = mean(images, {2, 3}, true);
    for (const Tensor& both : {mask, pixel}) {
        EXPECT_TRUE(both.is_contiguous());
        EXPECT_EQ(both.contiguous(kChannelsLast).value(), both.value());
    }
    EXPECT_THROW(rows.reshape({6, 20}).contiguous(kChannelsLast), ShapeError);
    EXPECT_FALSE(rows.reshape({6, 20}).is_contiguous(kChannelsLast));
}

TEST_F(MemoryFormats, ArePrintedAndIndexedAsTheShapeHasThem) {
    EXPECT_EQ(images.to_string(), rows.to_string());
    EXPECT_EQ((images[{1, 2, Slice(1, 3), -1}].to_vector<double>()),
              (rows[{1, 2, Slice(1, 3), -1}].to_vector<double>()));
    EXPECT_EQ((images[{1, 2, 3, 4}].item()), (rows[{1, 2, 3, 4}].item()));
}

struct Call {
    const char* name;
    std::function<Tensor(const Tensor&)> call;
};

/// Results of x's shape, or of a batch of such images.
const std::vector<Call> kHandOn = {
    {"relu", [](const Tensor& x) { return relu(x); }},
    {"square", [](const Tensor& x) { return square(x); }},
    {"add", [](const Tensor& x) { return x + x; }},
    {"mul", [](const Tensor& x) { return x * x; }},
    {"scaled",
     [](const Tensor& x) {
         return x * mean(x, {0, 2, 3}, true);
     }},
    {"scale first",
     [](const Tensor& x) {
         return mean(x, {0, 2, 3}, true) * x;
     }},
    {"where", [](const Tensor& x) { return where(x > 0.0, x, -x); }},
    {"masked_fill", [](const Tensor& x) { return masked_fill(x, x > 0.0, 0.0); }},
    {"greater", [](const Tensor& x) { return x > 0.0; }},
    {"isnan", [](const Tensor& x) { return isnan(x); }},
    {"cast", [](const Tensor& x) { return cast(x, Dtype::bf16); }},
    {"clone", [](const Tensor& x) { return clone(x); }},
    {"dropout", [](const Tensor& x) { return dropout(x, 0.3); }},
    {"dropout_add", [](const Tensor& x) { return dropout_add(x, x, 0.3); }},
    {"softmax of channels", [](const Tensor& x) { return softmax(x, 1); }},
    {"log_softmax of columns", [](const Tensor& x) { return log_softmax(x); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, {}, {}); }},
    {"rms_norm", [](const Tensor& x) { return rms_norm(x, {}); }},
    {"cumsum", [](const Tensor& x) { return cumsum(x, 2); }},
    {"flip",
     [](const Tensor& x) {
         return flip(x, {2, 3});
     }},
    {"cat",
     [](const Tensor& x) {
         return cat({x, x}, 1);
     }},
    {"cat of single images",
     [](const Tensor& x) {
         return cat({x.slice(0, 0, 1), x.slice(0, 1, 2)}, 0);
     }},
    {"stack",
     [](const Tensor& x) {
         return stack({x.select(0, 0), x.select(0, 1)});
     }},
    {"cat with one channel",
     [](const Tensor& x) {
         return cat({mean(x, {1}, true), x}, 1);
     }},
    {"index_select",
     [](const Tensor& x) {
         return index_select(x, 0, x.context().from_host(std::vector<int>{1, 0, 1}, {3}));
     }},
    {"expand", [](const Tensor& x) { return expand(x.slice(0, 0, 1), kShape); }},
    {"expand of one image", [](const Tensor& x) { return expand(x.select(0, 0).unsqueeze(0), kShape); }},
    {"zeros_like", [](const Tensor& x) { return zeros_like(x); }},
    {"randn_like", [](const Tensor& x) { return randn_like(x); }},
    {"sum of images", [](const Tensor& x) { return sum(x, {0}, true); }},
    {"max of images", [](const Tensor& x) { return max(x, {0}, true); }},
    {"var of images", [](const Tensor& x) { return var(x, {0}, 1, true); }},
    {"norm of images", [](const Tensor& x) { return norm(x, 2, {0}, true); }},
    {"logsumexp of images", [](const Tensor& x) { return logsumexp(x, {0}, true); }},
    {"prod of images", [](const Tensor& x) { return prod(x, {0}, true); }},
    {"without its axis", [](const Tensor& x) { return sum(x, {0}).unsqueeze(0); }},
    {"of some channels", [](const Tensor& x) { return relu(x.slice(1, 0, 2)); }},
};

TEST_F(MemoryFormats, AreHandedOn) {
    for (const Call& op : kHandOn) {
        SCOPED_TRACE(op.name);
        context.set_random_counter(5);
        const Tensor expected = op.call(rows);
        context.set_random_counter(5);
        const Tensor actual = op.call(images);
        EXPECT_TRUE(expected.is_contiguous()) << expected.strides().to_string();
        EXPECT_TRUE(actual.is_contiguous(kChannelsLast)) << actual.strides().to_string();
        const Doubles want = expected.to_vector<double>(), got = actual.to_vector<double>();
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-14) << i;
    }
    EXPECT_EQ(conversions(), 0);
}

TEST_F(MemoryFormats, OfMixedOnesTheFirstWithoutGapsDecides) {
    EXPECT_TRUE((images + rows).is_contiguous(kChannelsLast));
    EXPECT_TRUE((rows + images).is_contiguous());
    const Tensor wide = cat({rows, rows}, 3).slice(3, 0, 5);  // row-major with gaps
    EXPECT_TRUE((wide + images).is_contiguous(kChannelsLast));
    EXPECT_TRUE((wide + wide).is_contiguous());
    EXPECT_TRUE(where(rows > 0.0, images, images).is_contiguous());
    EXPECT_TRUE(cat({images, rows}, 1).is_contiguous(kChannelsLast));
    EXPECT_TRUE(cat({rows, images}, 1).is_contiguous());
    EXPECT_EQ((wide + images).to_vector<double>(), (rows + rows).to_vector<double>());
    const Tensor a = rows.detach().requires_grad_(), b = images.detach().requires_grad_(), weights = square(rows);
    backward(sum((a + b) * weights));
    EXPECT_EQ(a.grad().to_vector<double>(), weights.to_vector<double>());
    EXPECT_EQ(b.grad().to_vector<double>(), weights.to_vector<double>());
    EXPECT_EQ(b.value()->grad.strides(), images.strides());
}

TEST_F(MemoryFormats, RandomNumbersBelongToElementsNotToPlaces) {
    const auto drawn = [&](const Tensor& x) {
        context.set_random_counter(9);
        return dropout(x, 0.5).to_vector<double>();
    };
    EXPECT_EQ(drawn(images), drawn(rows));
    EXPECT_EQ(drawn(images.transpose(0, 3)), drawn(rows.transpose(0, 3).contiguous()));
    const auto like = [&](const Tensor& x) {
        context.set_random_counter(9);
        return randn_like(x).to_vector<double>();
    };
    EXPECT_EQ(like(images), like(rows));
}

TEST_F(MemoryFormats, AnOpWritesOverItsInputInAnyOrderOfMemoryButNotOverOneOfAnother) {
    const NoGradGuard no_grad(context);
    Tensor y = images + images;
    const void* const memory = y.array().view().data;
    Tensor z = tanh(std::move(y));
    EXPECT_EQ(z.array().view().data, memory);
    EXPECT_TRUE(z.is_contiguous(kChannelsLast));
    Tensor view = z.permute({0, 2, 3, 1});
    z.reset();
    EXPECT_EQ(relu(std::move(view)).array().view().data, memory);
    Tensor other = images + images;
    const void* const others = other.array().view().data;
    const Tensor mixed = rows + std::move(other);
    EXPECT_NE(mixed.array().view().data, others);
    EXPECT_EQ(mixed.to_vector<double>(), (rows + rows + rows).to_vector<double>());
}

/// A small network of pointwise ops and sums; the gradients of x and of the scale.
std::vector<Doubles> trained(Context& context, Tensor x, std::size_t& peak) {
    x.requires_grad_();
    const Tensor scale = context.from_host(Doubles{0.5, -1.5, 2.0}, {1, 3, 1, 1}).requires_grad_();
    {
        Tensor y = relu(x * scale);
        y = y + dropout(tanh(y), 0.25);
        y = y / sqrt(var(y, {0, 2, 3}, 0.0, true) + 1e-3);
        y.retain_grad();
        const Tensor probabilities = softmax(y, 1);
        const Tensor loss = sum(square(probabilities - mean(probabilities, {2, 3}, true)));
        backward(loss);
        EXPECT_EQ(y.value()->grad.strides(), y.value()->array.strides());
    }
    EXPECT_EQ(x.value()->grad.strides(), x.strides());
    EXPECT_EQ(x.grad().strides(), x.strides());
    peak = context.memory().statistics().peak_allocated;
    return {x.grad().to_vector<double>(), scale.grad().to_vector<double>()};
}

TEST(MemoryFormatOfGradients, IsThatOfTheirValuesAndCostsNothing) {
    Context row_major = Context::cpu({.threads = 1, .seed = 3}),
            channels_last = Context::cpu({.threads = 1, .seed = 3});
    Context rehearsal = Context::dry(channels_last.profile());
    std::size_t peak = 0, other = 0, predicted = 0;
    Tensor x = rows_of(row_major), images = images_of(channels_last), dry = images_of(rehearsal);
    for (Context* context : {&row_major, &channels_last, &rehearsal}) context->memory().reset_peak();
    const auto expected = trained(row_major, x, peak);
    const auto actual = trained(channels_last, images, other);
    trained(rehearsal, dry, predicted);
    EXPECT_EQ(peak, other);
    EXPECT_EQ(peak, predicted);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        for (std::size_t k = 0; k < expected[i].size(); ++k) EXPECT_NEAR(actual[i][k], expected[i][k], 1e-12);
    }
}

TEST_F(MemoryFormats, OfAnArrayIsTakenAsItIs) {
    const NoGradGuard no_grad(context);
    const Tensor taken = context.from_array(rows.transpose(1, 3).array());
    EXPECT_EQ(taken.shape(), (Shape{2, 5, 4, 3}));
    EXPECT_EQ(taken.to_vector<double>(), rows.transpose(1, 3).to_vector<double>());
    try {
        context.from_array(rows.slice(1, 0, 2).array());
        FAIL() << "an array with gaps was accepted";
    } catch (const ShapeError& error) {
        EXPECT_THAT(error.what(), HasSubstr("from_array: [2, 2, 4, 5] with strides [60, 20, 5, 1] has gaps"));
    }
}

void normal(Exec& exec, const Array& parameter, const kernels::RandomKey& key) {
    exec.launch([&](auto& stream) { kernels::normal(stream, key, 0.0f, 1.0f, parameter.view()); });
}

/// The memory of an array, element by element.
Doubles memory_of(Context& context, Array array) {
    array.geometry = {Shape{array.numel()}, Strides{1}, array.geometry.offset};
    const NoGradGuard no_grad(context);
    return cast(context.from_array(array), Dtype::f64).to_vector<double>();
}

TEST(MemoryFormatOfParameters, IsThatOfTheirGradientsToo) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context), others(context, {.name = "others"});
    const Tensor before = parameters.create("before", {3}, normal);
    const Tensor weight = parameters.create("weight", {2, 3, 2, 2}, normal, kChannelsLast);
    EXPECT_TRUE(weight.is_contiguous(kChannelsLast));
    Doubles values;
    for (int i = 0; i < 24; ++i) values.push_back(i);
    const Doubles drawn = weight.to_vector<double>();
    const Tensor rows = randn(context, {2, 3, 2, 2});
    const kernels::RandomKey key = kernels::path_key(context.seed(), "weight");
    normal(context.exec(), rows.array(), key);
    EXPECT_EQ(drawn, rows.to_vector<double>());
    parameters.set("weight", values);
    EXPECT_EQ(weight.to_vector<double>(), values);
    EXPECT_EQ(memory_of(context, weight.array()), weight.permute({0, 2, 3, 1}).to_vector<double>());
    backward(sum(square(weight)) + sum(before));
    EXPECT_EQ(weight.grad().to_vector<double>(), (weight * 2).to_vector<double>());
    EXPECT_EQ(memory_of(context, weight.value()->grad), (weight.permute({0, 2, 3, 1}) * 2).to_vector<double>());
    EXPECT_THROW(others.create("matrix", {2, 3}, normal, kChannelsLast), ShapeError);
}

/// A convolution of single pixels is a product with the weight as [O, I].
TEST(MemoryFormatOfParameters, GradientsInHalvesLandInThemThroughCasts) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    const Tensor weight = parameters.create("weight", {4, 3, 1, 2}, normal, kChannelsLast);
    const auto matrix = [&] { return weight.permute({0, 2, 3, 1}).reshape({4, 6}); };
    const Tensor x = randn(context, {5, 6});
    backward(sum(square(linear(x, matrix()))));
    const Doubles expected = weight.grad().to_vector<double>();
    parameters.zero_grad();
    const std::uint64_t recorded = context.tape().statistics().recorded;
    Tensor loss;
    {
        const Autocast autocast(context, Dtype::bf16);
        loss = sum(square(cast(linear(x, matrix()), Dtype::f32)));
    }
    EXPECT_EQ(context.tape().statistics().recorded, recorded + 6);  // two casts, linear, cast, square, sum
    backward(loss);
    EXPECT_EQ(weight.value()->grad.strides(), weight.strides());
    const Doubles actual = weight.grad().to_vector<double>();
    double scale = 0;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 0x1p-6 * scale);
}

}  // namespace memory_format_test
}  // namespace headroom
