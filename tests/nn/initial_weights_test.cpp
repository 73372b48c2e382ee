// How each tensor of a model begins: the mean, the deviation and the bounds of what PyTorch, torchvision and
// transformers draw (scripts/reference/initial_weights.py).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/nn/bert_names.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/nn/group_norm.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/layer_norm.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace initial_weights_test {

constexpr std::uint64_t kSeed = 17;

struct Rule {
    std::string kind;   ///< "normal", "uniform" or "constant"
    double number = 0;  ///< the deviation, the bound on both sides, or the value
};

using Rules = std::map<std::string, Rule>;

/// By model and name.
std::map<std::string, Rules> published_rules() {
    std::ifstream file(test::source_path("tests/reference/initial_weights.txt"));
    std::map<std::string, Rules> all;
    std::string line, model, name;
    while (std::getline(file, line)) {
        if (line.starts_with("= ")) {
            model = line.substr(2);
            continue;
        }
        Rule rule;
        std::istringstream(line) >> name >> rule.kind >> rule.number;
        all[model][name] = rule;
    }
    return all;
}

/// Six deviations of the mean and of the variance, by the distribution's fourth moment; and the largest absolute value:
/// of n uniform ones it is below 1 - 21 / n of the bound once in 10^9 times, of more than 240 normal ones below
/// sqrt(3) deviations, which no uniform one exceeds, as rarely.
void expect_drawn(const Rule& rule, const std::vector<double>& values) {
    if (rule.kind == "constant") {
        EXPECT_EQ(values, std::vector<double>(values.size(), rule.number));
        return;
    }
    const bool normal = rule.kind == "normal";
    ASSERT_TRUE(normal || rule.kind == "uniform") << rule.kind;
    const auto count = static_cast<double>(values.size());
    const double deviation = normal ? rule.number : rule.number / std::sqrt(3.0);
    double sum = 0, squares = 0, largest = 0;
    for (const double value : values) {
        sum += value;
        squares += value * value;
        largest = std::max(largest, std::abs(value));
    }
    EXPECT_NEAR(sum / count / deviation, 0, 6 / std::sqrt(count));
    EXPECT_NEAR(squares / count / (deviation * deviation), 1, 6 * std::sqrt((normal ? 2 : 0.8) / count));
    if (!normal) {
        EXPECT_LE(largest, rule.number * (1 + 1e-6));
        EXPECT_GT(largest, rule.number * (1 - 21 / count));
    } else if (count > 240) {
        EXPECT_GT(largest, std::sqrt(3.0) * deviation);
    }
}

struct Case {
    std::string model;
    std::function<void(Parameters&)> make;
    std::function<std::string(const std::string&)> name = [](const std::string& path) { return path; };
};

template <class Model, class... Options>
std::function<void(Parameters&)> make(Options... options) {
    return [=](Parameters& parameters) { Model(Path(parameters), options...); };
}

std::string of_gpt2(const std::string& path) { return "transformer." + gpt2_name(path).value(); }

/// torch.nn.Transformer's.
std::string of_encoder(std::string path) {
    for (const auto& [mine, theirs] :
         std::map<std::string, std::string>{{"attention.qkv.", "self_attn.in_proj_"},
                                            {"attention.projection.", "self_attn.out_proj."},
                                            {"mlp.up.", "linear1."},
                                            {"mlp.down.", "linear2."}})
        if (const std::size_t at = path.find(mine); at != std::string::npos)
            return path.replace(at, mine.size(), theirs);
    return path;
}

const GptOptions kGpt{.vocabulary = 500, .block = 40, .layers = 3};
const BertOptions kBert{.vocabulary = 500, .block = 40, .layers = 2, .heads = 2, .width = 64, .hidden = 96};
const RecurrentNetOptions kRecurrent{.in = 48, .width = 64, .layers = 2, .bidirectional = true};
const VggOptions kVgg{.convolutions = {1, 1, 2, 2, 2}, .width = 16, .hidden = 256};
const MaskRcnnOptions kMaskRcnn{.boxes = {.body = {.blocks = {1, 1, 1, 1}, .bottleneck = false, .width = 16},
                                          .classes = 4,
                                          .pyramid = 32,
                                          .hidden = 64},
                                .hidden = 32};

VggOptions with_norms(VggOptions options) {
    options.batch_norm = true;
    return options;
}

const std::vector<Case> kCases{
    {"resnet18", make<ResNet>(ResNetOptions::resnet18())},
    {"resnet50", make<ResNet>(ResNetOptions::resnet50())},
    {"vgg11", make<Vgg>(kVgg)},
    {"vgg11_bn", make<Vgg>(with_norms(kVgg))},
    {"unet", make<UNet>(UNetOptions{.classes = 5, .width = 16})},
    {"unet_bilinear", make<UNet>(UNetOptions{.classes = 5, .width = 16, .bilinear = true})},
    {"mask_rcnn", make<MaskRcnn>(kMaskRcnn)},
    {"gpt2", make<Gpt>(kGpt), of_gpt2},
    {"bert_words", make<BertForMaskedLm>(kBert), bert_name},
    {"bert_classes", make<BertForClassification>(3, kBert), bert_name},
    {"encoder", make<TransformerEncoder>(TransformerEncoderOptions{.width = 64, .heads = 4, .hidden = 96, .layers = 2}),
     of_encoder},
    {"lstm", make<Lstm>(kRecurrent)},
    {"gru", make<Gru>(kRecurrent)},
    {"lstm_cell", make<LstmCell>(48, 64)},
    {"gru_cell", make<GruCell>(48, 64)},
    {"linear", make<Linear>(48, 64)},
    {"conv2d", make<Conv2d>(16, 24, 3, Conv2dOptions{.groups = 2})},
    {"conv_transpose2d", make<ConvTranspose2d>(16, 24, 3, ConvTranspose2dOptions{.groups = 2})},
    {"embedding", make<Embedding>(48, 64)},
    {"layer_norm", make<LayerNorm>(64)},
    {"rms_norm", make<RmsNorm>(64)},
    {"group_norm", make<GroupNorm>(4, 64)},
    {"batch_norm", make<BatchNorm2d>(64)},
};

class InitialWeights : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, InitialWeights, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.model; });

TEST_P(InitialWeights, AreDrawnAsPublished) {
    const Case& test = GetParam();
    Rules rules = published_rules().at(test.model);
    Context context = Context::cpu({.threads = 2, .seed = kSeed});
    Parameters parameters(context);
    test.make(parameters);
    for (const Parameter& parameter : parameters.all()) {
        SCOPED_TRACE(fmt::format("{}, seed {}", parameter.path, kSeed));
        const std::vector<double> values = parameter.tensor.to_vector<double>();
        if (test.model == "encoder" && parameter.tensor.rank() < 2) {  // biases are 0, as in the paper's code
            const bool gain = parameter.path.find("norm") != std::string::npos && parameter.path.ends_with("weight");
            expect_drawn({"constant", gain ? 1.0 : 0.0}, values);
            continue;
        }
        const std::string name = test.name(parameter.path);
        ASSERT_TRUE(rules.contains(name)) << name;
        expect_drawn(rules.at(name), values);
        rules.erase(name);
        if (const std::size_t query = name.find(".query."); query != std::string::npos)  // the three are one here
            for (const char* const other : {".key.", ".value."})
                rules.erase(std::string(name).replace(query, 7, other));
    }
    for (const char* const tied : {"lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"})
        rules.erase(tied);
    for (const auto& [name, rule] : rules) ADD_FAILURE() << "no parameter is " << name;
}

TEST(InitialWeights, OfNarrowerGptsAreLarger) {
    Context context = Context::cpu({.threads = 2, .seed = kSeed});
    Parameters parameters(context);
    const Gpt model(Path(parameters), {.vocabulary = 300, .block = 40, .layers = 5, .heads = 4, .width = 192});
    std::set<std::string> residual;
    for (const Parameter& parameter : parameters.all()) {
        if (parameter.tensor.rank() < 2) continue;
        SCOPED_TRACE(fmt::format("{}, seed {}", parameter.path, kSeed));
        const bool ends_branch =
            parameter.path.ends_with("projection.weight") || parameter.path.ends_with("down.weight");
        if (ends_branch) residual.insert(parameter.path);
        const double deviation = 0.02 * std::sqrt(768.0 / 192);
        expect_drawn({"normal", ends_branch ? deviation / std::sqrt(10.0) : deviation},
                     parameter.tensor.to_vector<double>());
    }
    EXPECT_EQ(residual.size(), 10);
}

}  // namespace initial_weights_test
}  // namespace headroom::nn
