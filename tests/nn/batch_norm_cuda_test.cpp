// Running statistics in micro-batches that are launched as graphs.
#include <limits>

#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/nn/norm_training.hpp>

namespace headroom::nn {
namespace batch_norm_cuda_test {

TEST(BatchNorm2dGraphs, AGraphTakesInEachBatchThatItIsLaunchedFor) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const auto gpu = [](bool graphs) {
        return [graphs] { return Context::cuda(0, {.seed = 5, .compute = {.graphs = graphs}}); };
    };
    test::NormTraining with(gpu(true)), without(gpu(false));
    for (test::NormTraining* training : {&with, &without}) {
        for (int i = 0; i < 12; ++i) {
            training->accumulate(i % 5 == 4 ? std::numeric_limits<double>::infinity() : 1), training->accumulate();
            training->accumulator.step(0.1);
        }
    }
    EXPECT_EQ(with.accumulator.graph_refusal(), "");
    for (const Parameter& each : with.parameters.all()) {
        EXPECT_EQ(without.state(each.path.c_str()), with.state(each.path.c_str())) << each.path;
    }
    EXPECT_EQ(with.batches(), 22);
}

}  // namespace batch_norm_cuda_test
}  // namespace headroom::nn
