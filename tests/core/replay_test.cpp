// Every op in a region that is recomputed gives the gradients that it gives when everything is kept, bit for bit.
#include <gtest/gtest.h>

#include <headroom/core/ops/all_ops.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/tests/support/sample_calls.hpp>

namespace headroom::test {
namespace {

class Replay : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }
    Seed seed;

    /// Gradients of the inputs and of a weight by which each output is multiplied: the latter are the outputs as
    /// backward sees them, so ops without a gradient are tested, too.
    std::vector<std::vector<double>> run(const ErasedSample& sample, Dtype dtype, const Policy& policy, bool taken_over,
                                         std::uint64_t& replayed) {
        Context context = Context::cpu({.threads = 1});
        context.policy("region", policy);
        const auto inputs = place_all(context, draw(sample, seed), dtype, Layout::contiguous);
        std::vector<Tensor> weights;
        Tensor loss;
        {
            const RegionScope region(context, context.memory().intern("region"));
            std::vector<Tensor> taken;  // held by the call alone, so that it may write over them
            for (const Tensor& input : inputs) taken.push_back(input.defined() ? clone(input) : Tensor());
            std::vector<Tensor> outputs = call(context, op(), sample, taken_over ? std::move(taken) : inputs);
            taken.clear();
            for (std::size_t i = 0; i < outputs.size(); ++i) {
                Tensor y = is_floating(outputs[i].dtype()) ? outputs[i] : cast(outputs[i], Dtype::f32);
                const HostInput weight{SampleInput::normal(y.shape()), draw_projection(y.numel(), i, seed)};
                weights.push_back(place(context, weight, y.dtype(), Layout::contiguous));
                Tensor part = sum(mul(y, weights.back()));
                loss = loss.defined() ? loss + cast(part, loss.dtype()) : part;
            }
        }
        backward(loss);
        replayed = context.tape().statistics().replayed;
        std::vector<std::vector<double>> result;
        for (const std::vector<Tensor>* list : {&inputs, &std::as_const(weights)}) {
            for (const Tensor& leaf : *list) {
                const Tensor gradient = leaf.defined() ? leaf.grad() : Tensor();
                result.push_back(gradient.defined() ? gradient.to_vector<double>() : std::vector<double>());
            }
        }
        return result;
    }
};

TEST_P(Replay, GivesTheSameGradientsBitForBit) {
    for (const ErasedSample& sample : accepted(op())) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            SCOPED_TRACE(describe(op(), sample, seed));
            std::uint64_t kept = 0;
            std::uint64_t replayed = 0;
            const auto expected = run(sample, dtype, keep_all(), false, kept);
            EXPECT_EQ(run(sample, dtype, recompute_all(), false, replayed), expected);
            EXPECT_EQ(kept, 0u);
            EXPECT_GE(replayed, 1u);
            EXPECT_EQ(run(sample, dtype, keep_all(), true, kept), expected);
            EXPECT_EQ(run(sample, dtype, recompute_all(), true, replayed), expected);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Replay, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace
}  // namespace headroom::test
