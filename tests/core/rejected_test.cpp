// What an op must refuse is refused with one clear line, and costs nothing.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/test/op_checks.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace rejected_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Rejected : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }
    Context context = Context::cpu({.threads = 1});
    Seed seed;
};

TEST_P(Rejected, ThrowOneLineAndLeaveNothingBehind) { check_refusals(op()); }

TEST_P(Rejected, AnInputThatIsLeftOutIsOptionalOrRefusedInOneLine) {
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
            auto inputs = place_all(context, draw(sample, seed), Dtype::f32, Layout::contiguous);
            inputs[i] = {};
            try {
                call(context, op(), sample, inputs);
            } catch (const Error& error) {
                EXPECT_THAT(error.what(), StartsWith(std::string(op().table->info.name)));
                EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
            }
        }
        context.tape().clear();
    }
}

TEST_P(Rejected, NotInputsOfTwoContexts) {
    Context dry = Context::dry(context.profile());
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const std::vector<HostInput> host = draw(sample, seed);
        for (std::size_t i = 1; i < host.size(); ++i) {
            if (!host[0].what.defined || !host[i].what.defined) continue;
            auto inputs = place_all(context, host, Dtype::f32, Layout::contiguous);
            inputs[i] = place(dry, host[i], Dtype::f32, Layout::contiguous);
            try {
                call(context, op(), sample, inputs);
                ADD_FAILURE() << "was accepted";
            } catch (const Error& error) {
                EXPECT_THAT(error.what(), HasSubstr("belong to two contexts, cpu and a dry run on cpu;"));
            }
        }
        EXPECT_EQ(context.tape().size(), 0u);
        EXPECT_EQ(dry.tape().size(), 0u);
    }
}

TEST_P(Rejected, NotTheWrongNumberOfInputs) {
    const auto samples = accepted(op());
    ASSERT_FALSE(samples.empty()) << "an op needs samples";
    std::vector<Tensor> none(7);
    std::vector<Tensor> outputs(op().table->n_outputs);
    EXPECT_THROW(apply(context.tape(), *op().table, samples[0].attrs.data(), none, outputs), Error);
}

INSTANTIATE_TEST_SUITE_P(AllOps, Rejected, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace rejected_test
}  // namespace headroom::test
