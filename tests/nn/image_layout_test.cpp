// Models of images convert no layout inside, and keep no more than backward reads.
#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>

namespace headroom::nn {
namespace image_layout_test {

/// How often a model of images copies them into another layout: the ops that are recorded for it. The model's region
/// asks this policy once about each.
template <class Model, class Options>
int conversions(const Options& options, MemoryFormat format) {
    Context context = Context::dry(Profile::gpu(std::size_t{16} << 30));
    Parameters parameters(context);
    const Model model(parameters, options);
    int count = 0, ops = 0;
    context.policy("", [&](const Candidate& op) {
        ++ops;
        count += op.info.name == std::string_view("contiguous");
        return Answer::inherit;
    });
    backward(sum(model(contiguous(zeros(context, {2, 3, 64, 48}), format))));
    EXPECT_GT(ops, 20);
    return count;
}

TEST(ImageLayout, ModelsFedWithChannelsLastImagesConvertNone) {
    constexpr auto format = MemoryFormat::channels_last;
    EXPECT_EQ(conversions<ResNet>(ResNetOptions::resnet18(), format), 0);
    EXPECT_EQ(conversions<ResNet>(ResNetOptions::resnet50(), format), 0);
    EXPECT_EQ(conversions<UNet>(UNetOptions{.width = 8}, format), 0);
    EXPECT_EQ(conversions<UNet>(UNetOptions{.width = 8, .bilinear = true}, format), 0);
}

TEST(ImageLayout, VggConvertsOnlyWhatItsRowMajorWeightsRead) {
    constexpr auto format = MemoryFormat::channels_last;
    EXPECT_EQ(conversions<Vgg>(VggOptions::vgg11(), format), 1);
    VggOptions with_norms = VggOptions::vgg16();
    with_norms.batch_norm = true;
    EXPECT_EQ(conversions<Vgg>(with_norms, format), 1);
}

TEST(ImageLayout, RowMajorImagesAreConvertedOnce) {
    EXPECT_EQ(conversions<ResNet>(ResNetOptions::resnet18(), MemoryFormat::contiguous), 1);
    EXPECT_EQ(conversions<UNet>(UNetOptions{.width = 8}, MemoryFormat::contiguous), 1);
}

/// Of a stage's last convolution nothing is kept but what the pooling selected, of which one byte says where it was.
TEST(VggMemory, KeepsNothingThatIsPooled) {
    Context context = Context::dry(Profile::gpu(std::size_t{16} << 30));
    Parameters parameters(context);
    const VggOptions options{.convolutions = {2, 1, 1, 1, 1}, .hidden = 64};
    const Vgg model(parameters, options);
    const std::int64_t batch = 2, size = 64;
    const Tensor images = contiguous(zeros(context, {batch, 3, size, size}), MemoryFormat::channels_last);
    parameters.materialize();
    for (const bool cheap : {false, true}) {
        if (cheap) context.policy("", recompute_cheap());
        const std::size_t before = context.memory().statistics().allocated;
        const Tensor logits = model(images);
        std::size_t kept = 4 * 64 * batch * size * size;  // features.0's result
        for (std::int64_t stage = 1, channels = 64; stage <= 5;
             ++stage, channels = std::min<std::int64_t>(2 * channels, 512))
            kept += 5 * batch * channels * (size >> stage) * (size >> stage);
        const std::size_t pooled = 4 * batch * 512 * 7 * 7;
        EXPECT_LE(context.memory().statistics().allocated - before, kept + 2 * pooled) << cheap;
    }
}

}  // namespace image_layout_test
}  // namespace headroom::nn
