// A rehearsal of every op takes the same memory as the real run, byte for byte.
#include <gtest/gtest.h>

#include <headroom/core/ops/all_ops.hpp>
#include <headroom/tests/support/sample_calls.hpp>

namespace headroom {

void PrintTo(const MemoryStatistics& s, std::ostream* out) {
    *out << "allocated " << s.allocated << ", peak " << s.peak_allocated << ", reserved " << s.reserved << ", peak "
         << s.peak_reserved << ", allocations " << s.allocations;
}

namespace test {
namespace {

class Dry : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }
    Seed seed;

    /// What was counted after forward, after backward, and when all is gone.
    std::vector<MemoryStatistics> run(Context& context, const ErasedSample& sample, Dtype dtype, Layout layout) {
        std::vector<MemoryStatistics> result;
        {
            const auto inputs = place_all(context, draw(sample, seed), dtype, layout);
            Tensor loss = projected(context, call(context, op(), sample, inputs), seed);
            result.push_back(context.memory().statistics());
            if (loss.defined()) backward(loss);
            result.push_back(context.memory().statistics());
            loss = projected(context, call(context, op(), sample, inputs), seed);  // with gradients that are there
            if (loss.defined()) backward(loss);
            result.push_back(context.memory().statistics());
        }
        context.tape().clear();
        result.push_back(context.memory().statistics());
        return result;
    }
};

TEST_P(Dry, CountsTheSameBytes) {
    for (const ErasedSample& sample : accepted(op())) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}) {
            for (const Layout layout : {Layout::contiguous, Layout::strided}) {
                SCOPED_TRACE(describe(op(), sample, seed) + ", " + std::string(name(dtype)));
                Context real = Context::cpu({.threads = 2});
                Context dry = Context::dry(real.profile());
                EXPECT_EQ(run(real, sample, dtype, layout), run(dry, sample, dtype, layout));
                EXPECT_EQ(real.memory().statistics().allocated, 0u) << "something is still held";
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Dry, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace
}  // namespace test
}  // namespace headroom
