// Every op on a GPU, or in the emulator: values and gradients agree with f64 on the CPU, wherever the inputs lie.
#include <gtest/gtest.h>

#include <headroom/core/test/agreement.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace ops_cuda_test {

class OpsCuda : public testing::TestWithParam<std::size_t> {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
    const OpEntry& op() const { return all_ops()[GetParam()]; }

    Context reference = Context::cpu({.threads = 1});
    Seed seed;
};

TEST_P(OpsCuda, AgreeWithTheCpu) {
    // The emulator takes 20 ms to fill cuBLASLt's workspace for a product: one layout of f32 and one of a half have it.
    Context filled = Context::cuda(0, {.fill_uninitialized_memory = true}), context = Context::cuda();
    expect_agreement(filled, reference, op(), Dtype::f32, {Layout::strided}, seed);
    expect_agreement(filled, reference, op(), Dtype::bf16, {Layout::contiguous}, seed);
    expect_agreement(context, reference, op(), Dtype::f32, {Layout::contiguous, Layout::permuted, Layout::transposed},
                     seed);
    for (const Dtype dtype : {Dtype::f16, Dtype::f64})
        expect_agreement(context, reference, op(), dtype, {Layout::contiguous}, seed);
}

TEST_P(OpsCuda, RehearseToTheByte) {
    Context context = Context::cuda();
    Context dry = Context::dry(context.profile());
    for (const ErasedSample& sample : accepted(op())) {
        SCOPED_TRACE(describe(op(), sample, seed));
        const auto inputs = draw(sample, seed);
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            for (Context* each : {&context, &dry}) {
                for (const Layout layout : {Layout::permuted, Layout::strided}) {
                    gradients(*each, op(), sample, place_all(*each, inputs, dtype, layout), seed);
                }
            }
            EXPECT_EQ(context.memory().statistics().peak_allocated, dry.memory().statistics().peak_allocated);
            EXPECT_EQ(context.memory().statistics().peak_reserved, dry.memory().statistics().peak_reserved);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllOps, OpsCuda, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace ops_cuda_test
}  // namespace headroom::test
