// Models of images convert no layout inside.
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
namespace {

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

}  // namespace
}  // namespace headroom::nn
