// What an op must refuse is refused with one clear line, and costs nothing.
#include <gtest/gtest.h>

#include <headroom/core/test/op_checks.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace {

class Rejected : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }
};

TEST_P(Rejected, ThrowOneLineAndLeaveNothingBehind) { check_refusals(op()); }

TEST_P(Rejected, NotTheWrongNumberOfInputs) {
    Context context = Context::cpu({.threads = 1});
    const auto samples = accepted(op());
    ASSERT_FALSE(samples.empty()) << "an op needs samples";
    std::vector<Tensor> none(7);
    std::vector<Tensor> outputs(op().table->n_outputs);
    EXPECT_THROW(apply(context.tape(), *op().table, samples[0].attrs.data(), none, outputs), Error);
}

INSTANTIATE_TEST_SUITE_P(AllOps, Rejected, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace
}  // namespace headroom::test
