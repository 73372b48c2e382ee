// Ops that differences of their inputs alone decide, of f32 inputs that share an offset, on the processor and on a GPU:
// beside f64 for the same inputs, and with the bits that they have without the offset. Attention is in
// tests/kernels/attention_test.cpp and attention_cuda_test.cpp, nn's sampling in tests/nn/sampling_test.cpp.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/logsumexp.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/sampling.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom {
namespace shared_offset_devices_test {

using Floats = std::vector<float>;

constexpr double kUnit = epsilon(Dtype::f32);
constexpr double kOffsets[] = {0, 1e4, 1e8};  // where neighbours of f32 are 2^-10 and 8 apart
constexpr std::int64_t kRows = 3;

/// A row in f64.
struct Exact {
    Exact(const Floats& values, std::int64_t row, std::int64_t length, std::int64_t step = 1)
        : terms(static_cast<double>(length)) {
        const auto at = [&](std::int64_t i) {
            return values[static_cast<std::size_t>(step == 1 ? row * length + i : i * step + row)];
        };
        largest = at(0);
        for (std::int64_t i = 1; i < length; ++i) largest = std::max<double>(largest, at(i));
        double sum = 0;
        for (std::int64_t i = 0; i < length; ++i) {
            below.push_back(largest - at(i));
            sum += std::exp(-below.back());
        }
        for (const double distance : below) p.push_back(std::exp(-distance) / sum);
        logarithm = std::log(sum);
    }
    /// Of a probability: the sum's additions, an exponential and what the rounding of its argument does to it.
    double relative(std::size_t i) const { return kUnit * (terms + 16 + 2 * (below[i] + logarithm)); }

    double terms, largest = 0, logarithm = 0;
    std::vector<double> below, p;  ///< the distances from the largest, and the probabilities
};

class SharedOffset : public ::testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        if (GetParam() && kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
        open();
    }
    void open(std::size_t scratch_budget = ComputeOptions().scratch_budget) {
        const ContextOptions options{.threads = 2, .seed = 5, .compute = {.scratch_budget = scratch_budget}};
        context.reset(GetParam() ? new Context(Context::cuda(0, options)) : new Context(Context::cpu(options)));
    }
    Floats draw(std::int64_t count, double offset) {
        std::normal_distribution<double> normal(offset, 3);
        Floats values;
        for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(normal(random)));
        return values;
    }
    Tensor leaf(const Floats& values, const Shape& shape) { return context->from_host(values, shape).requires_grad_(); }
    Tensor targets(std::int64_t rows, std::int64_t classes) {
        std::vector<std::int32_t> numbers;
        for (std::int64_t i = 0; i < rows; ++i) numbers.push_back(static_cast<std::int32_t>((5 * i + 1) % classes));
        return context->from_host(numbers, {rows});
    }
    /// `call(offset, length)` of rows in one chunk and in several.
    template <class Call>
    void for_each_size(const Call& call) {
        for (const double offset : kOffsets) {
            for (const std::int64_t length : {37, 1500}) {
                SCOPED_TRACE(::testing::Message() << "offset " << offset << ", length " << length);
                call(offset, length);
                if (HasFailure()) return;
            }
        }
    }

    std::mt19937_64 random{test::random_seed()};
    std::unique_ptr<Context> context;
};

TEST_P(SharedOffset, SoftmaxAndItsLogarithmAreThoseOfF64) {
    for_each_size([&](double offset, std::int64_t length) {
        const Floats values = draw(kRows * length, offset), upstream = draw(kRows * length, 0);
        for (const bool logarithm : {false, true}) {
            const Tensor x = leaf(values, {kRows, length});
            const Tensor y = logarithm ? log_softmax(x) : softmax(x);
            backward(sum(y * context->from_host(upstream, {kRows, length})));
            const Floats got = y.to_vector<float>(), gradient = x.grad().to_vector<float>();
            for (std::int64_t row = 0; row < kRows; ++row) {
                const Exact exact(values, row, length);
                const auto first = static_cast<std::size_t>(row * length);
                double total = 0, size = 0, error = 0;
                for (std::size_t i = 0; i < exact.p.size(); ++i) {
                    const double factor = logarithm ? 1 : exact.p[i], dy = upstream[first + i];
                    total += factor * dy, size += factor * std::abs(dy);
                    error += factor * std::abs(dy) * (exact.relative(i) + kUnit * exact.terms);
                }
                for (std::size_t i = 0; i < exact.p.size(); ++i) {
                    const double p = exact.p[i], dy = upstream[first + i], relative = exact.relative(i);
                    const double value = logarithm ? -exact.below[i] - exact.logarithm : p;
                    ASSERT_NEAR(got[first + i], value, logarithm ? relative : relative * p);
                    const double expected = logarithm ? dy - p * total : p * (dy - total);
                    const double rounding = 4 * kUnit * (std::abs(dy) + size) * (logarithm ? 1 : p);
                    ASSERT_NEAR(gradient[first + i], expected,
                                p * (error + 2 * relative * (std::abs(dy) + size)) + rounding);
                }
            }
        }
    });
}

TEST_P(SharedOffset, LogSumExpAndItsGradientAreThoseOfF64) {
    for_each_size([&](double offset, std::int64_t length) {
        const Floats values = draw(kRows * length, offset), upstream = draw(kRows, 0);
        for (const int axis : {1, 0}) {
            const Tensor x = leaf(values, axis == 1 ? Shape{kRows, length} : Shape{length, kRows});
            const Tensor y = logsumexp(x, axis);
            backward(sum(y * context->from_host(upstream, {kRows})));
            const Floats got = y.to_vector<float>(), gradient = x.grad().to_vector<float>();
            for (std::int64_t row = 0; row < kRows; ++row) {
                const Exact exact(values, row, length, axis == 1 ? 1 : kRows);
                const double value = exact.largest + exact.logarithm, dy = upstream[static_cast<std::size_t>(row)];
                ASSERT_NEAR(got[static_cast<std::size_t>(row)], value,
                            kUnit * (std::abs(value) + exact.logarithm + exact.terms + 16));
                for (std::int64_t i = 0; i < length; ++i) {
                    const auto number = static_cast<std::size_t>(i);
                    const std::int64_t at = axis == 1 ? row * length + i : i * kRows + row;
                    ASSERT_NEAR(gradient[static_cast<std::size_t>(at)], exact.p[number] * dy,
                                exact.relative(number) * exact.p[number] * std::abs(dy));
                }
            }
        }
    });
}

TEST_P(SharedOffset, CrossEntropyAndItsGradientAreThoseOfF64) {
    for_each_size([&](double offset, std::int64_t length) {
        const Floats values = draw(kRows * length, offset);
        const Tensor x = leaf(values, {kRows, length}), classes = targets(kRows, length);
        const Loss loss = cross_entropy(x, classes);
        backward(loss.sum());
        const Floats gradient = x.grad().to_vector<float>();
        double total = 0, bound = 0;
        for (std::int64_t row = 0; row < kRows; ++row) {
            const Exact exact(values, row, length);
            const auto target = static_cast<std::size_t>((5 * row + 1) % length);
            total += exact.below[target] + exact.logarithm;
            bound += exact.relative(target) + kUnit * (exact.below[target] + exact.logarithm);
            for (std::size_t i = 0; i < exact.p.size(); ++i) {
                const double expected = exact.p[i] - (i == target ? 1 : 0);
                ASSERT_NEAR(gradient[static_cast<std::size_t>(row * length) + i], expected,
                            exact.relative(i) * exact.p[i] + kUnit);
            }
        }
        EXPECT_NEAR(loss.sum().item(), total, bound);
    });
}

/// Logits of the offset plus s w, where s is 1, 2 or -1 and w a multiple of 8: no product is rounded. x is (1, s), the
/// weight (offset, w).
TEST_P(SharedOffset, LinearCrossEntropyAndItsGradientsAreThoseOfF64) {
    constexpr std::int64_t classes = 37;
    constexpr double factors[kRows] = {1, 2, -1};
    for (const std::size_t budget : {std::size_t{0}, ComputeOptions().scratch_budget}) {  // computed again, or kept
        open(budget);
        for (const double offset : kOffsets) {
            SCOPED_TRACE(::testing::Message() << "offset " << offset << ", budget " << budget);
            Floats rows, weights, logits;
            for (const double s : factors) rows.insert(rows.end(), {1, static_cast<float>(s)});
            for (std::int64_t c = 0; c < classes; ++c)
                weights.insert(weights.end(), {static_cast<float>(offset), static_cast<float>(8 * (c * 5 % 7 - 3))});
            for (const double s : factors) {
                for (std::int64_t c = 0; c < classes; ++c)
                    logits.push_back(static_cast<float>(offset + s * weights[static_cast<std::size_t>(2 * c + 1)]));
            }
            const Tensor x = leaf(rows, {kRows, 2}), weight = leaf(weights, {classes, 2});
            const Loss loss = linear_cross_entropy(x, weight, targets(kRows, classes));
            backward(loss.sum());
            const Floats dx = x.grad().to_vector<float>(), dweight = weight.grad().to_vector<float>();
            double total = 0, bound = 0;
            std::vector<double> expected(2 * classes), error(2 * classes);  // of the weight's gradient
            for (std::int64_t row = 0; row < kRows; ++row) {
                const Exact exact(logits, row, classes);
                const auto target = static_cast<std::size_t>((5 * row + 1) % classes);
                total += exact.below[target] + exact.logarithm;
                bound += exact.relative(target) + kUnit * (exact.below[target] + exact.logarithm);
                double sums[2] = {}, errors[2] = {};
                for (std::size_t c = 0; c < exact.p.size(); ++c) {
                    const double g = exact.p[c] - (c == target ? 1 : 0);
                    const double off = exact.relative(c) * exact.p[c] + 2 * kUnit;
                    for (const std::size_t i : {0u, 1u}) {
                        const double w = weights[2 * c + i], s = rows[static_cast<std::size_t>(2 * row) + i];
                        sums[i] += g * w, errors[i] += (off + kUnit * classes * std::abs(g)) * std::abs(w);
                        expected[2 * c + i] += g * s, error[2 * c + i] += (off + 4 * kUnit) * std::abs(s);
                    }
                }
                for (const std::size_t i : {0u, 1u})
                    ASSERT_NEAR(dx[static_cast<std::size_t>(2 * row) + i], sums[i], errors[i]);
            }
            EXPECT_NEAR(loss.sum().item(), total, bound);
            for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(dweight[i], expected[i], error[i]) << i;
        }
    }
}

/// Differences of multiples of 8 are exact at each offset, so that nothing may tell one from another; draws neither.
TEST_P(SharedOffset, BitsAreThoseWithoutIt) {
    constexpr std::int64_t length = 40;
    Floats steps;
    for (std::int64_t i = 0; i < kRows * length; ++i) steps.push_back(8.0f * static_cast<float>(random() % 4));
    std::vector<std::vector<double>> first;
    for (const double offset : kOffsets) {
        Floats values(steps);
        for (float& value : values) value += static_cast<float>(offset);
        open();
        const auto x = [&] { return leaf(values, {kRows, length}); };
        const auto gradient = [&](const auto& call) {
            const Tensor leaf = x();
            backward(call(leaf));
            return leaf.grad().template to_vector<double>();
        };
        const Tensor classes = targets(kRows, length), p = softmax(x());
        const std::vector<std::vector<double>> got{
            p.to_vector<double>(),
            log_softmax(x()).to_vector<double>(),
            gradient([](const Tensor& t) { return sum(logsumexp(t, -1)); }),
            gradient([](const Tensor& t) { return logsumexp(t); }),
            cross_entropy(x(), classes, {.label_smoothing = 0.1}).sum().to_vector<double>(),
            gradient([&](const Tensor& t) { return cross_entropy(t, classes, {.label_smoothing = 0.1}).sum(); }),
            multinomial(p, 5).to_vector<double>(),
            multinomial(p, 200, true).to_vector<double>(),
        };
        if (first.empty()) first = got;
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], first[i]) << "result " << i << ", " << offset;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, SharedOffset, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "gpu" : "cpu"; });

}  // namespace shared_offset_devices_test
}  // namespace headroom
