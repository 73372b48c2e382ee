// Choices of algorithms stay in a file from one context to the next.
#include <headroom/core/context.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/attention/internal/sdpa_choices.hpp>
#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace tuning_cuda_test {

class TuningCuda : public testing::Test {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
        std::filesystem::remove(file);
    }
    Context context() const { return Context::cuda(0, {.compute = {.tune = true}, .tuning_file = file}); }
    std::string contents() const {
        std::ifstream stream(file);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    static kernels::MatmulChoices& choices(Context& context) {
        return std::get<CudaStream>(context.stream()).state->get<kernels::MatmulChoices>();
    }
    static kernels::SdpaChoices& attention_choices(Context& context) {
        return std::get<CudaStream>(context.stream()).state->get<kernels::SdpaChoices>();
    }
    static kernels::ConvolutionChoices& convolution_choices(Context& context) {
        return std::get<CudaStream>(context.stream()).state->get<kernels::ConvolutionChoices>();
    }
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "tuning.txt";
};

TEST_F(TuningCuda, IsWrittenWhenAskedForAndReadAtTheStart) {
    const kernels::MatmulChoiceKey key{3, 4, 5};
    {
        Context first = context();
        EXPECT_EQ(choices(first).size(), 0u);
        choices(first).set(key, {.words = {7}, .tuned = true});
        attention_choices(first).set({.heads = 3, .key_heads = 3}, "cuDNN 9", "a plan");
        convolution_choices(first).set({{.inputs = 3}}, "cuDNN 9", "another plan");
        first.save_tuning();
    }
    const std::string written = contents();
    Context second = context();
    ASSERT_TRUE(choices(second).find(key));
    EXPECT_EQ(choices(second).find(key)->words[0], 7u);
    ASSERT_TRUE(attention_choices(second).find({.heads = 3, .key_heads = 3}, "cuDNN 9"));
    EXPECT_EQ(*attention_choices(second).find({.heads = 3, .key_heads = 3}, "cuDNN 9"), "a plan");
    EXPECT_FALSE(attention_choices(second).find({.heads = 3, .key_heads = 3}, "cuDNN 10"));
    ASSERT_TRUE(convolution_choices(second).find({{.inputs = 3}}, "cuDNN 9"));
    EXPECT_EQ(*convolution_choices(second).find({{.inputs = 3}}, "cuDNN 9"), "another plan");
    EXPECT_FALSE(convolution_choices(second).find({{.inputs = 4}}, "cuDNN 9"));
    second.save_tuning();
    EXPECT_EQ(contents(), written);
    Context without = Context::cuda(0, {.compute = {.tune = true}});
    EXPECT_EQ(choices(without).size(), 0u);
    without.save_tuning();
}

TEST_F(TuningCuda, OfAttentionIsReadThoughProductsWereOfAnotherLibrary) {
    {
        Context first = context();
        choices(first).set({3, 4, 5}, {.words = {7}, .tuned = true});
        attention_choices(first).set({.heads = 3, .key_heads = 3}, "a GPU, cuDNN 9", "a plan");
        first.save_tuning();
    }
    std::string text = contents();
    text.insert(text.find("\nchoices"), "1");  // behind the version of cuBLASLt
    std::ofstream(file) << text;
    Context second = context();
    EXPECT_EQ(choices(second).size(), 0u);
    EXPECT_EQ(attention_choices(second).size(), 1u);
}

TEST_F(TuningCuda, OfOwnKernelsIsNotLookedAt) {
    std::ofstream(file) << "no choices\n";
    Context context = Context::cuda(0, {.compute = {.own_kernels = true}, .tuning_file = file});
    context.save_tuning();
    EXPECT_EQ(contents(), "no choices\n");
}

TEST_F(TuningCuda, ThatIsDamagedIsRefused) {
    std::ofstream(file) << "no choices\n";
    EXPECT_THROW(context(), FileError);
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    EXPECT_THROW(context(), FileError);
    std::filesystem::remove(file);
}

/// With TF32, tuning and all the scratch that there is, the peak is still what was predicted: of products that add to
/// gradients, too.
TEST_F(TuningCuda, ARehearsalKnowsWhatWasAskedFor) {
    Context context = Context::cuda(
        0, {.compute = {.tf32 = true, .tune = true, .deterministic = false, .scratch_budget = std::size_t{4} << 30}});
    Context dry = Context::dry(context.profile());
    for (Context* each : {&context, &dry}) {
        const Tensor a = each->from_host(std::vector<float>(64 * 64, 1), {64, 64}).requires_grad_();
        for (int i = 0; i < 2; ++i) backward(sum(matmul(a, a)));
        if (!each->dry()) {
            EXPECT_EQ(a.grad().to_vector<float>(), std::vector<float>(64 * 64, 256));
        }
    }
    EXPECT_EQ(context.memory().statistics().peak_allocated, dry.memory().statistics().peak_allocated);
}

}  // namespace tuning_cuda_test
}  // namespace headroom
