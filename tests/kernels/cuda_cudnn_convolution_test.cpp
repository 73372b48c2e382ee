// Plans of whole models' convolutions, made by NVIDIA's cuDNN without a GPU: each model's are a file of
// tests/kernels/convolutions, as model_step --convolutions prints them.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/absent_gpu.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::kernels {
namespace cuda_cudnn_convolution_test {

struct Plans {
    const char* model;
    int capability = 90;
    const char* dtype = "bf16";  ///< in place of the file's, which is bf16
    bool slow = false;           ///< half a minute, where additions are fused: if HEADROOM_ALL_CONVOLUTIONS is set
};

/// "unet_large", of an H200; else "unet_large_75_f16".
std::string test_name(const Plans& plans) {
    const std::string model = plans.model;
    return plans.capability == 90 ? model : model + "_" + std::to_string(plans.capability) + "_" + plans.dtype;
}

/// In f32 without TF32 a data pass copies both images to another layout. True where the scratch budget has no room for
/// that, which leaves cuDNN with few plans.
bool exceeds_the_budget(CudnnConvolution c) {
    if (c.pass != ConvolutionPass::data || !c.exact_f32()) return false;
    const std::size_t budget = std::exchange(c.budget, std::numeric_limits<std::size_t>::max());
    return c.scratch() > budget;
}

/// Plans all lines of a file and prints "model | text | plan | scratch | reserved" for each; the texts of those that
/// are refused though their scratch fits the budget.
std::set<std::string> refused(CudnnConvolutions& cudnn, const Plans& plans) {
    const std::string model = plans.model;
    std::ifstream file(headroom::test::source_path("tests/kernels/convolutions/" + model + ".txt"));
    std::set<std::string> texts;
    int lines = 0;
    for (std::string line; std::getline(file, line); ++lines) {
        line.replace(line.find("bf16"), 4, plans.dtype);
        const CudnnConvolution c = CudnnConvolution::from_text(line);
        const CudnnPlan& plan = cudnn.plan(c);
        std::cout << test_name(plans) << " | " << line << " | "
                  << (plan.refusal.empty() ? plan.name : "refused: " + plan.refusal) << " | " << plan.scratch << " | "
                  << c.scratch() << "\n";
        EXPECT_LE(plan.scratch, c.scratch()) << line;
        if (!plan.refusal.empty() && !exceeds_the_budget(c)) texts.insert(line);
    }
    EXPECT_GT(lines, 0) << model;
    return texts;
}

class CudnnConvolutionPlans : public ::testing::TestWithParam<Plans> {};

TEST_P(CudnnConvolutionPlans, AreThereWithinTheScratchThatWasReckonedWith) {
    if (GetParam().slow && !std::getenv("HEADROOM_ALL_CONVOLUTIONS")) GTEST_SKIP() << "HEADROOM_ALL_CONVOLUTIONS";
    std::unique_ptr<CudnnConvolutions> cudnn;
    try {
        cudnn = std::make_unique<CudnnConvolutions>(test::open_cudnn_without_gpu(GetParam().capability));
    } catch (const DeviceError& error) {
        GTEST_SKIP() << error.what();
    }
    std::cout << cudnn->version() << "\n";
    EXPECT_EQ(refused(*cudnn, GetParam()), std::set<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Models, CudnnConvolutionPlans,
                         ::testing::Values(Plans{"resnet50"}, Plans{"unet"}, Plans{"unet_large"},
                                           Plans{"maskrcnn", 90, "bf16", true}, Plans{"resnet50", 75, "f16", true},
                                           Plans{"unet_large", 75, "f16"}, Plans{"unet_large", 75, "f32"}),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace cuda_cudnn_convolution_test
}  // namespace headroom::kernels
