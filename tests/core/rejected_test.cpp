// What an op must refuse is refused with one clear line, and costs nothing.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/all_ops.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/sample_calls.hpp>

namespace headroom::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Rejected : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }
    Context context = Context::cpu({.threads = 1});
    Seed seed;
};

TEST_P(Rejected, ThrowOneLineAndLeaveNothingBehind) {
    for (const ErasedSample& sample : refused(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const auto inputs = place_all(context, draw(sample, seed), Dtype::f32, Layout::contiguous);
        const std::size_t records = context.tape().size();
        const std::size_t values = context.tape().statistics().values;
        const std::size_t allocated = context.memory().statistics().allocated;
        try {
            call(context, op(), sample, inputs);
            ADD_FAILURE() << "was accepted";
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(sample.rejected));
            EXPECT_THAT(error.what(), StartsWith(std::string(op().table->info.name)));
            EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
        }
        EXPECT_EQ(context.tape().size(), records);
        EXPECT_EQ(context.tape().statistics().values, values);
        EXPECT_EQ(context.memory().statistics().allocated, allocated);
    }
}

TEST_P(Rejected, ThrowInARehearsalToo) {
    Context dry = Context::dry(context.profile());
    for (const ErasedSample& sample : refused(op())) {
        if (sample.rejected.find(": index") != std::string::npos) continue;  // values are not checked there
        SCOPED_TRACE(describe(op(), sample, seed));
        const auto inputs = place_all(dry, draw(sample, seed), Dtype::f32, Layout::contiguous);
        const std::size_t allocated = dry.memory().statistics().allocated;
        EXPECT_THROW(call(dry, op(), sample, inputs), Error);
        EXPECT_EQ(dry.memory().statistics().allocated, allocated);
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

}  // namespace
}  // namespace headroom::test
