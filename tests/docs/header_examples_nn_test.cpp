// The examples of nn headers: each is compiled as the header shows it.
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/attention.hpp>
#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/bert_names.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/detection_boxes.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/faster_rcnn.hpp>
#include <headroom/nn/fpn.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/nn/group_norm.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/nn/layer_norm.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/low_rank.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/mlp.hpp>
#include <headroom/nn/module.hpp>
#include <headroom/nn/path.hpp>
#include <headroom/nn/pool.hpp>
#include <headroom/nn/recompute_way.hpp>
#include <headroom/nn/recurrent.hpp>
#include <headroom/nn/region_pooling.hpp>
#include <headroom/nn/region_proposals.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/sampling.hpp>
#include <headroom/nn/sequential.hpp>
#include <headroom/nn/transformer_encoder.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/upsample.hpp>
#include <headroom/nn/vgg.hpp>

namespace header_examples {
namespace header_examples_nn_test {

using namespace headroom;

void attention_example(const nn::Path& root, Tensor x, Tensor last, Tensor lengths, Tensor memory) {
    nn::SelfAttention attention(root / "attn", {.width = 128, .heads = 4, .causal = true});
    Tensor y = attention(x);
    nn::KeyValue cache;
    Tensor next = attention(last, &cache);
    nn::SelfAttention turned(root / "attn", {.width = 128, .heads = 4, .rotary = RotaryOptions{}});
    nn::SelfAttention both(root / "attn", {.width = 128, .heads = 4, .causal = false, .dropout = 0.1});
    Tensor p = both(x, AttentionMask{.lengths = lengths});
    nn::CrossAttention cross(root / "cross", {.width = 128, .heads = 4, .memory_width = 96});
    Tensor z = cross(x, memory);
    const nn::KeyValue known = cross.keys_and_values(memory);
    Tensor last_z = cross(last, known);
}

void batch_norm_example(const nn::Path& root, nn::Conv2d conv, nn::BatchNorm2d last, Tensor x, Tensor residual) {
    nn::BatchNorm2d norm(root / "bn1", 64, {.relu = true});
    x = norm(conv(std::move(x)));
    x = last(std::move(x), std::move(residual));
    nn::BatchNorm2d fixed(root / "bn1", 64, {.frozen = true});
}

void bert_example(Context& context, Parameters& critic, Tensor ids, Tensor targets, Tensor lengths, Tensor seen) {
    Parameters parameters(context);
    nn::BertForMaskedLm model(parameters, {.vocabulary = 30522, .layers = 4, .heads = 4, .width = 256, .hidden = 1024});
    Loss loss = model.loss(ids, targets, {.lengths = lengths});
    nn::BertForClassification judge(critic, 3, {});
    Tensor logits = judge(ids, AttentionMask{.keys = seen});
}

void bert_names_example(Parameters& parameters) {
    nn::BertForMaskedLm model(parameters, nn::bert_sizes("bert-base-uncased/model.safetensors"));
    const files::LoadReport report = nn::load_bert("bert-base-uncased/model.safetensors", parameters);
    nn::save_bert("mine.safetensors", parameters);
}

void conv_example(const nn::Path& root, Tensor images) {
    nn::Conv2d conv(root / "conv1", 3, 64, 7, {.stride = 2, .padding = 3}, {.bias = false});
    Tensor y = conv(images);
    nn::ConvTranspose2d up(root / "up", 128, 64, 2, {.stride = 2});
}

void detection_boxes_example(Tensor cells, Tensor objects, Tensor present, Tensor kinds) {
    Tensor all = nn::anchors(cells, {200, 304}, {800, 1216});
    Tensor overlaps = nn::box_iou(objects, all);
    nn::Matches matches = nn::match(overlaps, present, {.positive = 0.7, .negative = 0.3, .each_object = true});
    nn::BoxSample sample = nn::sample_balanced(kinds, 256, 0.5);
}

void dropout_example(const nn::Path& root, Tensor x, Tensor branch) {
    nn::Dropout drop(root / "drop", 0.1);
    x = drop(std::move(x));
    nn::DropoutAdd residual(root / "residual", 0.1);
    x = residual(std::move(branch), std::move(x));
}

void embedding_example(const nn::Path& root, Tensor ids) {
    nn::Embedding tokens(root / "tokens", 50257, 768);
    Tensor x = tokens(ids);
    nn::Embedding words(root / "words", 30522, 768, nullptr, 0);
}

void faster_rcnn_example(Parameters& parameters, Tensor images, Tensor boxes, Tensor labels) {
    nn::FasterRcnn model(parameters, {.classes = 4});
    Loss loss = model.loss(images, boxes, labels);
    nn::Detections found = model.detect(images);
    nn::FasterRcnnOptions small{.body = nn::ResNetOptions::resnet18(), .classes = 4, .regions = 64};
    small.proposals.sizes = {8, 16, 32, 64, 128};
}

void fpn_example(const nn::Path& root, nn::ResNet resnet, Tensor images) {
    nn::FeaturePyramid fpn(root / "fpn", {256, 512, 1024, 2048}, 256);
    nn::Pyramid levels = fpn(resnet.features(images));
}

void gpt_example(Context& context, Tensor tokens, Tensor targets, std::vector<std::int32_t> prompt) {
    Parameters parameters(context);
    nn::Gpt model(parameters, {.vocabulary = 65, .block = 64, .layers = 4, .heads = 4, .width = 128});
    Loss loss = model.loss(tokens, targets);
    backward(loss.mean());
    std::vector<std::int32_t> text = nn::generate(model, prompt, 100, {.temperature = 0.8, .top_k = 40});
}

void gpt2_names_example(Parameters& parameters) {
    nn::Gpt model(parameters, nn::gpt2_sizes("gpt2/model.safetensors"));
    nn::load_gpt2("gpt2/model.safetensors", model);
    nn::save_gpt2("mine.safetensors", model);
    nn::gpt2_name("blocks.3.mlp.up.weight");
}

void group_norm_example(const nn::Path& root) {
    nn::GroupNorm norm(root / "norm1", 32, 64);
    nn::InstanceNorm plain(root / "norm2", 64);
}

void gru_example(const nn::Path& root, Tensor x, Tensor lengths, Tensor element, Tensor before) {
    nn::Gru net(root / "gru", {.in = 96, .width = 128, .layers = 2, .bidirectional = true, .dropout = 0.2});
    auto [y, h] = net(x);
    auto [z, last] = net(x, h, lengths);
    nn::GruCell cell(root / "cell", 96, 128);
    Tensor now = cell(element, before);
}

void initializers_example(const nn::Path& path) {
    Tensor weight = path.parameter("weight", {512, 128}, nn::init::kaiming_uniform(std::sqrt(5.0)));
    Tensor gamma = path.parameter("gamma", {128}, nn::init::ones());
}

void layer_norm_example(const nn::Path& root, Tensor x) {
    nn::LayerNorm norm(root / "ln_1", 128);
    Tensor y = norm(x);
    nn::RmsNorm rms(root / "norm", 128, 1e-6);
}

void linear_example(const nn::Path& root, Tensor x) {
    nn::Linear layer(root / "head", 128, 10);
    Tensor y = layer(x);
    nn::Linear plain(root / "proj", 128, 128, {.bias = false});
    nn::Linear small(root / "out", 128, 128, {.weight = nn::init::normal(0, 0.02), .bias_values = nn::init::zeros()});
}

void low_rank_example(Parameters& parameters, const std::string& file) {
    nn::Gpt model(parameters, nn::gpt2_sizes(file));
    parameters.freeze("**");
    for (std::size_t i = 0; i < model.blocks.size(); ++i)
        nn::add_low_rank(model.blocks[i].attention.qkv, nn::Path(parameters) / "adapters" / i, {.rank = 8});
    nn::load_gpt2(file, model);
}

void lstm_example(const nn::Path& root, Tensor x, Tensor lengths, Tensor element, LstmState before) {
    nn::Lstm net(root / "lstm", {.in = 96, .width = 128, .layers = 2, .bidirectional = true, .dropout = 0.2});
    auto [y, state] = net(x);
    auto [z, last] = net(x, state, lengths);
    nn::LstmCell cell(root / "cell", 96, 128);
    LstmState now = cell(element, before);
}

void mask_rcnn_example(Parameters& parameters, Tensor images, Tensor boxes, Tensor labels, Tensor masks,
                       std::vector<float> probabilities, std::array<float, 4> box) {
    nn::MaskRcnn model(parameters, {.boxes = {.classes = 4}});
    Loss loss = model.loss(images, boxes, labels, masks);
    nn::Detections found = model.detect(images);
    std::vector<std::uint8_t> mask = nn::paste_mask(probabilities, box, 800, 1216);
}

void mlp_example(const nn::Path& root, Tensor x) {
    nn::Mlp mlp(root / "mlp", {.width = 128, .hidden = 512});
    Tensor y = mlp(x);
}

namespace module_example {
struct Mlp : nn::Module<Mlp> {
    nn::Linear up, down;
    Mlp(const nn::Path& path, std::int64_t width)
        : Module(path), up(path / "up", width, 4 * width), down(path / "down", 4 * width, width) {}
    Tensor forward(Tensor x) const { return down(gelu(up(std::move(x)))); }
};
}  // namespace module_example

void path_example(Context& context, nn::GptOptions config) {
    Parameters parameters(context);
    nn::Path root = parameters;
    nn::Linear up(root / "mlp" / "up", 128, 512);
    nn::TransformerBlock block(root / "blocks" / 3, config);
}

void pool_example(const nn::Path& root, Tensor x) {
    nn::MaxPool2d pool(root / "pool", {.kernel = 3, .stride = 2, .padding = 1});
    Tensor y = pool(x);
    nn::AdaptiveAvgPool2d average(root / "avgpool", {7, 7});
}

void recompute_way_example(Context& context) {
    const nn::RecomputeWay way{"cheap", "norms and the like", {{"blocks.*", recompute_cheap()}}};
    for (const auto& [pattern, policy] : way.policies) context.policy(pattern, policy);
}

void recurrent_example(const nn::Path& path) {
    std::vector<RecurrentWeights> weights = nn::recurrent_weights(path, 4, {.in = 96, .width = 128, .layers = 2});
}

void region_pooling_example(nn::Pyramid levels, Tensor boxes, Tensor present) {
    Tensor regions = nn::pool_regions(levels, {800, 1216}, boxes, present, {.size = 7});
}

void region_proposals_example(const nn::Path& root, nn::RegionProposalOptions options, nn::Pyramid pyramid,
                              Tensor boxes, Tensor labels) {
    nn::RegionProposals rpn(root / "rpn", 256, options);
    nn::Proposals found = rpn(pyramid, IntPair{800, 1216}, boxes, labels);
}

void resnet_example(Parameters& parameters, Tensor images) {
    nn::ResNet model(parameters, nn::ResNetOptions::resnet50());
    Tensor logits = model(images);
    nn::ResNet small(parameters, {.blocks = {1, 1, 1, 1}, .bottleneck = false, .classes = 10, .small_images = true});
}

void sampling_example(Context& context, Tensor logits) {
    nn::TokenDraws draw(context, {.temperature = 0.8, .top_k = 40});
    std::int32_t next = draw(logits);
}

void sequential_example(const nn::Path& root, Tensor images) {
    auto net = nn::sequential(
        nn::Linear(root / "fc1", 784, 256), [](Tensor x) { return relu(std::move(x)); },
        nn::Linear(root / "fc2", 256, 10));
    Tensor logits = net(images);
    std::get<0>(net.parts).weight;
}

void transformer_encoder_example(const nn::Path& root, Tensor x, Tensor lengths) {
    nn::TransformerEncoder encoder(root / "encoder", {.width = 256, .heads = 4, .hidden = 1024, .layers = 6});
    Tensor y = encoder(x, AttentionMask{.lengths = lengths});
    nn::TransformerEncoderLayer layer(root / "layer", {.width = 256, .heads = 4, .hidden = 1024, .norm_first = true});
}

void unet_example(Parameters& parameters, Tensor images, Tensor masks) {
    nn::UNet model(parameters, {.channels = 3, .classes = 2});
    Tensor logits = model(images);
    Loss loss = cross_entropy(logits.permute({0, 2, 3, 1}), masks);
}

void upsample_example(const nn::Path& root, Tensor x) {
    nn::Upsample up(root / "up", {.scale = 2.0, .mode = Interpolation::bilinear});
    Tensor y = up(x);
    nn::Pad border(root / "border", {1, 1, 1, 1}, PadMode::reflect);
}

void vgg_example(Parameters& parameters, Tensor images) {
    nn::Vgg model(parameters, nn::VggOptions::vgg16());
    Tensor logits = model(images);
    nn::Vgg normed(parameters, {.convolutions = {1, 1, 2, 2, 2}, .batch_norm = true});
}

TEST(HeaderExamples, OfNnRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Parameters others(context, {.name = "others"});
    const nn::Path root = parameters;
    const auto x = [&](const Shape& shape) { return randn(context, shape); };
    dropout_example(root, x({4}), x({4}));
    group_norm_example(root);
    initializers_example(root / "linear");
    mlp_example(root, x({2, 128}));
    pool_example(root, x({1, 2, 14, 14}));
    sampling_example(context, x({65}));
    sequential_example(others, x({2, 784}));
    upsample_example(root, x({1, 2, 3, 3}));
    detection_boxes_example(x({3, 4}), x({10, 4}), ones(context, {10}, Dtype::boolean),
                            ones(context, {2, 300}, Dtype::i64));
}

}  // namespace header_examples_nn_test
}  // namespace header_examples
