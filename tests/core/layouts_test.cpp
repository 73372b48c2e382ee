// Every op gives the same values wherever its inputs lie, and close ones in every dtype.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include <headroom/core/test/agreement.hpp>
#include <headroom/core/test/op_checks.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace layouts_test {

class Layouts : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }

    Values run(const ErasedSample& sample, const std::vector<Tensor>& inputs) {
        return test::run(context, op(), sample, inputs, seed);
    }

    Context context = Context::cpu({.threads = 1, .fill_uninitialized_memory = true});
    Seed seed;
};

TEST_P(Layouts, GiveTheSameValuesInEveryDtype) { check_layouts(op()); }

TEST_P(Layouts, LeaveGradientsOfOtherElementsZero) {
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const auto placed = place_all(context, draw(sample, seed), Dtype::f64, Layout::strided);
        gradients(context, op(), sample, placed, seed);
        for (const Tensor& view : placed) {
            if (!view.defined() || !view.grad().defined() || view.numel() == 0) continue;
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

INSTANTIATE_TEST_SUITE_P(AllOps, Layouts, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace layouts_test
}  // namespace headroom::test
