// Every op gives the same values wherever its inputs lie, and close ones in every dtype.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include <headroom/core/ops/all_ops.hpp>
#include <headroom/tests/support/sample_calls.hpp>

namespace headroom::test {
namespace {

using Arrays = std::vector<std::vector<double>>;

/// On the host; gradients are those of floating inputs.
struct Values {
    Arrays outputs;
    Arrays gradients;
};

class Layouts : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }

    Values run(const ErasedSample& sample, const std::vector<Tensor>& inputs) { return run(sample, inputs, seed); }

    Values run(const ErasedSample& sample, const std::vector<Tensor>& inputs, const Seed& projection) {
        Values result;
        for (const Tensor& y : call(context, op(), sample, inputs)) result.outputs.push_back(y.to_vector<double>());
        result.gradients = gradients(context, op(), sample, inputs, projection);
        return result;
    }

    /// What relative errors in the inputs and in dy are multiplied by on their way to each array: found by making some.
    /// Where terms cancel, this is more than the array's largest magnitude, and no algorithm is more accurate.
    std::pair<std::vector<double>, std::vector<double>> conditions(const ErasedSample& sample,
                                                                   const std::vector<HostInput>& inputs,
                                                                   const Values& expected) {
        constexpr double error = 0x1p-24;
        std::vector<double> outputs, gradients;
        for (const auto& array : expected.outputs) outputs.push_back(largest(array));
        for (const auto& array : expected.gradients) gradients.push_back(largest(array));
        std::mt19937_64 random(seed.value);
        for (int draw = 0; draw < 8; ++draw) {
            auto disturbed = inputs;
            for (HostInput& input : disturbed) {
                if (!is_floating(input.what)) continue;
                for (double& value : input.values) value *= random() & 1u ? 1 + error : 1 - error;
            }
            Seed projection = seed;
            projection.projection_error = error;
            projection.error_draw = random();
            const Values other = run(sample, place_all(context, disturbed, Dtype::f64, Layout::contiguous), projection);
            const auto measure = [&](const Arrays& a, const Arrays& b, std::vector<double>& scales) {
                for (std::size_t i = 0; i < a.size(); ++i) {
                    for (std::size_t k = 0; k < a[i].size(); ++k) {
                        scales[i] = std::max(scales[i], std::abs(a[i][k] - b[i][k]) / error);
                    }
                }
            };
            measure(other.outputs, expected.outputs, outputs);
            measure(other.gradients, expected.gradients, gradients);
        }
        return {outputs, gradients};
    }

    Context context = Context::cpu({.threads = 1});
    Seed seed;
};

/// |a - b| is at most `relative` times the scale of the array: its largest magnitude, or what is given.
void expect_close(const Arrays& actual, const Arrays& expected, double relative, const char* what,
                  const std::vector<double>& scales = {}) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
        ASSERT_EQ(actual[i].size(), expected[i].size()) << what << " " << i;
        const double bound = relative * (scales.empty() ? largest(expected[i]) : scales[i]);
        for (std::size_t k = 0; k < actual[i].size(); ++k) {
            ASSERT_NEAR(actual[i][k], expected[i][k], bound) << what << " " << i << ", element " << k;
        }
    }
}

/// A sum of n terms, and a few operations with each, may be off by that many roundings.
double terms(const ErasedSample& sample) {
    std::int64_t count = 16;
    for (const SampleInput& input : sample.inputs) count += input.shape.elements();
    return static_cast<double>(count);
}

TEST_P(Layouts, GiveTheSameValues) {
    for (const ErasedSample& sample : accepted(op())) {
        const auto inputs = draw(sample, seed);
        const Values expected = run(sample, place_all(context, inputs, Dtype::f64, Layout::contiguous));
        const auto [output_scales, gradient_scales] = conditions(sample, inputs, expected);
        for (const Layout layout : {Layout::transposed, Layout::strided}) {
            SCOPED_TRACE(describe(op(), sample, seed) + (layout == Layout::strided ? ", strided" : ", transposed"));
            const Values actual = run(sample, place_all(context, inputs, Dtype::f64, layout));
            const double bound = terms(sample) * epsilon(Dtype::f64);
            expect_close(actual.outputs, expected.outputs, bound, "output", output_scales);
            expect_close(actual.gradients, expected.gradients, bound, "gradient", gradient_scales);
        }
    }
}

TEST_P(Layouts, LeaveGradientsOfOtherElementsZero) {
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const auto placed = place_all(context, draw(sample, seed), Dtype::f64, Layout::strided);
        gradients(context, op(), sample, placed, seed);
        for (const Tensor& view : placed) {
            if (!view.defined() || !view.grad().defined() || view.elements() == 0) continue;
            const Array& whole = view.value()->array;
            const Tensor gradient = Tensor(view.value(), whole.geometry).grad();
            double outside = 0.0;
            for (const double value : gradient.to_vector<double>()) outside += std::abs(value);
            double inside = 0.0;
            for (const double value : view.grad().to_vector<double>()) inside += std::abs(value);
            EXPECT_NEAR(outside, inside, 1e-12 * inside);
        }
    }
}

TEST_P(Layouts, TakeBothKindsOfIndices) {
    for (const ErasedSample& sample : accepted(op())) {
        const auto inputs = draw(sample, seed);
        const auto is_index = [](const SampleInput& input) { return input.fill == SampleInput::Fill::index; };
        if (std::none_of(sample.inputs.begin(), sample.inputs.end(), is_index)) continue;
        SCOPED_TRACE(describe(op(), sample, seed));
        const Values expected = run(sample, place_all(context, inputs, Dtype::f64, Layout::contiguous));
        for (const Layout layout : {Layout::contiguous, Layout::strided}) {
            std::vector<Tensor> placed;
            for (const HostInput& input : inputs) {
                placed.push_back(place(context, input, Dtype::f64, layout, true, Dtype::i32));
            }
            const Values actual = run(sample, placed);
            const double bound = terms(sample) * epsilon(Dtype::f64);
            expect_close(actual.outputs, expected.outputs, bound, "output");
            expect_close(actual.gradients, expected.gradients, bound, "gradient");
        }
    }
}

/// Against f64 from the same rounded inputs. Halves are computed in f32 and rounded where they are stored: once for an
/// output; for a gradient, what it is computed from was stored, too: dy, and outputs that were saved, whose rounding
/// enters every gradient, that of an input that by itself has little effect as well.
TEST_P(Layouts, AgreeInEveryDtype) {
    for (const ErasedSample& sample : accepted(op())) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
            SCOPED_TRACE(describe(op(), sample, seed) + ", " + std::string(name(dtype)));
            auto inputs = draw(sample, seed);
            const auto placed = place_all(context, inputs, dtype, Layout::contiguous);
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                if (inputs[i].what.defined) inputs[i].values = placed[i].to_vector<double>();
            }
            const Values actual = run(sample, placed);
            const Values expected = run(sample, place_all(context, inputs, Dtype::f64, Layout::contiguous));
            const double bound = terms(sample) * epsilon(Dtype::f32) + (is_half(dtype) ? 8 * epsilon(dtype) : 0.0);
            auto [output_scales, gradient_scales] = conditions(sample, inputs, expected);
            if (is_half(dtype)) gradient_scales.assign(gradient_scales.size(), largest(gradient_scales));
            expect_close(actual.outputs, expected.outputs, bound, "output", output_scales);
            expect_close(actual.gradients, expected.gradients, bound, "gradient", gradient_scales);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Layouts, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace
}  // namespace headroom::test
