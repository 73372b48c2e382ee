// Mask R-CNN on a GPU, or in the emulator: what the CPU computes, in memory known before, without the host waiting.
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/nn/rcnn_training.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::nn {
namespace mask_rcnn_cuda_test {

using test::RcnnTraining;

Context cpu() { return Context::cpu({.threads = 2, .seed = 7}); }
Context cuda() { return Context::cuda(0, {.seed = 7}); }

/// One pass over the emulator, which is slow.
TEST(MaskRcnnCuda, StepsAsTheCpuDoesWhateverIsRecomputed) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const Profile profile = cuda().profile();
    const test::RcnnSetting recomputing{"all", {{"**", recompute_all()}}};
    RcnnTraining host(cpu), kept(cuda), recomputed(cuda, recomputing);
    RcnnTraining dry([&] { return Context::dry(profile); });
    for (RcnnTraining* each : {&host, &kept, &recomputed, &dry}) each->queue();
    EXPECT_EQ(kept.context.gpu()->host_waits(), 0);
    // The sums on the longest way through body, pyramid and heads have some 1,000 terms.
    const double loss = host.accumulator.result().loss;
    EXPECT_NEAR(kept.accumulator.result().loss, loss, 1000 * epsilon(Dtype::f32) * loss);
    EXPECT_EQ(headroom::test::values_of(recomputed.parameters), headroom::test::values_of(kept.parameters));
    EXPECT_EQ(headroom::test::gradients_of(recomputed.parameters), headroom::test::gradients_of(kept.parameters));
    const MemoryStatistics a = kept.context.memory().statistics(), b = dry.context.memory().statistics();
    EXPECT_EQ(a.peak_allocated, b.peak_allocated);
    EXPECT_EQ(a.peak_reserved, b.peak_reserved);
}

}  // namespace mask_rcnn_cuda_test
}  // namespace headroom::nn
