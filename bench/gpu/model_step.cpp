// Training steps of whole models on random data: seconds, and the peak beside what a rehearsal predicted. On the CPU or
// a GPU; with --device dry only the prediction, on any machine. One JSON object on standard output. With PyTorch in
// turn: bench/peers/compare_models.py.
//   model_step --model resnet50 --batch 8 --height 224 --width 224 --recompute cheap
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/internal/one_line.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>

namespace {

using namespace headroom;
using Clock = std::chrono::steady_clock;

struct Flags {
    std::string device = "cpu", model = "resnet50", dtype = "f32", recompute = "none";
    std::int64_t batch = 8, height = 224, width = 224, classes = 1000, warmup = 2, steps = 5;
    int threads = 0;
    double memory = 141e9;  // of the GPU that is rehearsed
    bool convolutions = false;
    ComputeOptions compute;
};

std::optional<Dtype> autocast_dtype(const std::string& dtype) {
    if (dtype == "bf16") return Dtype::bf16;
    if (dtype == "f16") return Dtype::f16;
    return std::nullopt;
}

/// A model's loss, and inputs that stay.
struct Step {
    std::vector<Tensor> inputs;
    std::function<Loss(const std::vector<Tensor>&)> loss;
};

using MakeStep = std::function<Step(Parameters&, const Flags&)>;

Tensor random_images(Context& context, const Flags& flags) {
    return randn(context, {flags.batch, flags.height, flags.width, 3}).permute({0, 3, 1, 2});  // channels-last
}

/// A class for each image or, of U-Net, for each pixel.
template <class Model, class Options>
MakeStep class_step(Options options) {
    return [options](Parameters& parameters, const Flags& flags) mutable {
        options.classes = flags.classes;
        const auto model = std::make_shared<Model>(parameters, options);
        const Tensor images = random_images(parameters.context(), flags);
        constexpr bool per_pixel = std::is_same_v<Model, nn::UNet>;
        const Shape shape = per_pixel ? Shape{flags.batch, flags.height, flags.width} : Shape{flags.batch};
        const Tensor targets = randint(parameters.context(), 0, flags.classes, shape);
        return Step{{images, targets}, [model](const std::vector<Tensor>& inputs) {
                        const Tensor logits = (*model)(inputs[0]);
                        return cross_entropy(per_pixel ? logits.permute({0, 2, 3, 1}) : logits, inputs[1]);
                    }};
    };
}

/// Sequences are `height` tokens long, and all of them are asked for.
template <class Model, class Options>
Step text_step(Parameters& parameters, const Flags& flags) {
    const Options options;
    const auto model = std::make_shared<Model>(parameters, options);
    const Tensor ids = randint(parameters.context(), 1, options.vocabulary, {flags.batch, flags.height});
    return {{ids}, [model](const std::vector<Tensor>& inputs) { return model->loss(inputs[0], inputs[0]); }};
}

/// A language model of two layers, 512 wide.
template <class Net>
struct RecurrentModel : nn::Module<RecurrentModel<Net>> {
    static constexpr std::int64_t kWidth = 512;

    RecurrentModel(const nn::Path& path, std::int64_t vocabulary)
        : nn::Module<RecurrentModel>(path),
          tokens(path / "tokens", vocabulary, kWidth),
          layers(path / "layers", {.in = kWidth, .width = kWidth, .layers = 2}),
          head(path / "head", kWidth, vocabulary, {.bias = false}) {}

    /// ids [time, batch]
    Loss loss(const Tensor& ids) const {
        RegionScope scope(this->context(), this->path());
        Tensor x = layers(tokens(ids)).output.reshape({-1, kWidth});
        return linear_cross_entropy(std::move(x), head.weight, ids.reshape({-1}));
    }

    nn::Embedding tokens;
    Net layers;
    nn::Linear head;
};

/// Sequences are `height` tokens long, of which there are `classes`.
template <class Net>
Step recurrent_step(Parameters& parameters, const Flags& flags) {
    const auto model = std::make_shared<RecurrentModel<Net>>(parameters, flags.classes);
    const Tensor ids = randint(parameters.context(), 0, flags.classes, {flags.height, flags.batch});
    return {{ids}, [model](const std::vector<Tensor>& inputs) { return model->loss(inputs[0]); }};
}

/// Ten objects an image, on a diagonal, with sides of a twentieth to half of the image's.
Step mask_rcnn_step(Parameters& parameters, const Flags& flags) {
    constexpr std::int64_t kObjects = 10;
    Context& context = parameters.context();
    const auto model =
        std::make_shared<nn::MaskRcnn>(parameters, nn::MaskRcnnOptions{.boxes = {.classes = flags.classes}});
    std::vector<float> boxes;
    for (std::int64_t i = 0; i < flags.batch * kObjects; ++i) {
        const auto begin = 0.05f * static_cast<float>(i % kObjects), end = 2 * begin + 0.05f;
        for (const float place : {begin, end})
            for (const std::int64_t side : {flags.width, flags.height})
                boxes.push_back(place * static_cast<float>(side));
    }
    return {
        {random_images(context, flags), context.from_host(boxes, {flags.batch, kObjects, 4}),
         randint(context, 1, flags.classes, {flags.batch, kObjects}),
         full(context, {flags.batch, kObjects, flags.height, flags.width}, 1, Dtype::u8)},
        [model](const std::vector<Tensor>& inputs) { return model->loss(inputs[0], inputs[1], inputs[2], inputs[3]); }};
}

const std::map<std::string, MakeStep>& models() {
    using nn::ResNetOptions;
    static const std::map<std::string, MakeStep> all{
        {"resnet18", class_step<nn::ResNet>(ResNetOptions::resnet18())},
        {"resnet34", class_step<nn::ResNet>(ResNetOptions::resnet34())},
        {"resnet50", class_step<nn::ResNet>(ResNetOptions::resnet50())},
        {"resnet101", class_step<nn::ResNet>(ResNetOptions::resnet101())},
        {"resnet152", class_step<nn::ResNet>(ResNetOptions::resnet152())},
        {"vgg16", class_step<nn::Vgg>(nn::VggOptions::vgg16())},
        {"vgg16_bn", class_step<nn::Vgg>(nn::VggOptions{.batch_norm = true})},
        {"unet", class_step<nn::UNet>(nn::UNetOptions())},
        {"unet_bilinear", class_step<nn::UNet>(nn::UNetOptions{.bilinear = true})},
        {"maskrcnn", mask_rcnn_step},
        {"lstm", recurrent_step<nn::Lstm>},
        {"gru", recurrent_step<nn::Gru>},
        {"bert", text_step<nn::BertForMaskedLm, nn::BertOptions>},
        {"gpt2", text_step<nn::Gpt, nn::GptOptions>}};
    return all;
}

/// On a real context or in a rehearsal: forward, all gradients, SGD with momentum.
class Training {
  public:
    Training(Context& context, const Flags& flags)
        : context_(context),
          dtype_(autocast_dtype(flags.dtype)),
          parameters_(context),
          step_(models().at(flags.model)(parameters_, flags)),
          optimizer_(parameters_, {.momentum = 0.9}),
          accumulator_(parameters_, optimizer_) {
        if (flags.recompute == "cheap") context.policy("", recompute_cheap());
    }

    void step() {
        accumulator_.accumulate(micro_batch_, step_.inputs);
        accumulator_.step(1e-3);
    }
    /// Waits for the device.
    double loss() const { return accumulator_.result().loss; }
    std::int64_t parameters() const { return parameters_.count(); }
    std::string graph_refusal() const { return accumulator_.graph_refusal(); }

  private:
    Context& context_;
    std::optional<Dtype> dtype_;
    Parameters parameters_;
    Step step_;
    optim::Sgd optimizer_;
    optim::GradientAccumulator accumulator_;
    optim::GraphedWork micro_batch_ = accumulator_.graph([this](const std::vector<Tensor>& inputs) {
        Autocast autocast(context_, dtype_);
        return step_.loss(inputs);
    });
};

std::size_t rehearsed_peak(const Profile& profile, const Flags& flags) {
    Context context = Context::dry(profile);
    Training training(context, flags);
    for (int i = 0; i < (flags.compute.graphs ? 3 : 2); ++i) training.step();
    if (flags.convolutions) {
        const auto& stream = std::get<kernels::DryStream>(context.stream());
        for (const std::string& text : kernels::rehearsed_convolutions(stream)) fmt::print("{}\n", text);
    }
    return context.memory().statistics().peak_allocated;
}

Context make_context(const Flags& flags) {
    const ContextOptions options{.threads = flags.threads, .compute = flags.compute};
    return flags.device == "cuda" ? Context::cuda(0, options) : Context::cpu(options);
}

/// "on", "off", or why not.
std::string graphs_of(const Flags& flags, const Training& training) {
    if (!flags.compute.graphs) return "off";
    const std::string refusal = training.graph_refusal();
    return refusal.empty() ? "on" : kernels::one_line(refusal);
}

/// Which libraries computed on a GPU, and what did instead of them; empty words on a processor.
struct Libraries {
    explicit Libraries(Context& context) {
        if (!context.gpu()) return;
        auto& stream = std::get<CudaStream>(context.stream());
        attention = kernels::attention_library(stream);
        products = kernels::matmul_library(stream);
        convolutions = kernels::convolution_library(stream);
    }
    std::string attention, products, convolutions;
};

void run(const Flags& flags) {
    if (flags.device == "dry") {
        Profile profile = Profile::gpu(static_cast<std::size_t>(flags.memory));
        profile.compute = flags.compute;
        const std::size_t predicted = rehearsed_peak(profile, flags);
        if (flags.convolutions) return;
        fmt::print("{{\"model\": \"{}\", \"batch\": {}, \"predicted_bytes\": {}}}\n", flags.model, flags.batch,
                   predicted);
        return;
    }
    Context context = make_context(flags);
    const std::size_t predicted = rehearsed_peak(context.profile(), flags);
    Training training(context, flags);
    for (std::int64_t i = 0; i < flags.warmup; ++i) training.step();
    double loss = training.loss();
    std::vector<double> seconds;
    const auto waits = [&] { return context.gpu() ? context.gpu()->host_waits() : 0; };
    const std::int64_t waits_before = waits();
    for (std::int64_t i = 0; i < flags.steps; ++i) {
        const auto begin = Clock::now();
        training.step();
        loss = training.loss();
        seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    const std::int64_t waited = context.gpu() ? waits() - waits_before - flags.steps : 0;  // but for each step's loss
    std::ranges::nth_element(seconds, seconds.begin() + flags.steps / 2);
    const double median = seconds[static_cast<std::size_t>(flags.steps / 2)];
    const Libraries libraries(context);
    fmt::print(
        "{{\"framework\": \"headroom\", \"model\": \"{}\", \"dtype\": \"{}\", \"batch\": {}, \"height\": {}, "
        "\"width\": {}, \"recompute\": \"{}\", \"graphs\": \"{}\", \"parameters\": {}, \"seconds\": {:.6f}, "
        "\"samples_per_second\": {:.3f}, \"loss\": {:.4f}, \"peak_bytes\": {}, \"predicted_bytes\": {}, "
        "\"host_waits\": {}, \"attention\": \"{}\", \"products\": \"{}\", \"convolutions\": \"{}\"}}\n",
        flags.model, flags.dtype, flags.batch, flags.height, flags.width, flags.recompute, graphs_of(flags, training),
        training.parameters(), median, static_cast<double>(flags.batch) / median, loss,
        context.memory().statistics().peak_allocated, predicted, waited, libraries.attention, libraries.products,
        libraries.convolutions);
}

}  // namespace

int main(int argc, char** argv) {
    Flags flags;
    CLI::App app("Times training steps of a model on random data.", "model_step");
    app.add_option("--device", flags.device)->check(CLI::IsMember({"cpu", "cuda", "dry"}))->capture_default_str();
    app.add_option("--model", flags.model)->check(CLI::IsMember(models()))->capture_default_str();
    app.add_option("--dtype", flags.dtype)->check(CLI::IsMember({"f32", "bf16", "f16"}))->capture_default_str();
    app.add_option("--recompute", flags.recompute)->check(CLI::IsMember({"none", "cheap"}))->capture_default_str();
    app.add_option("--memory", flags.memory, "bytes of the GPU that --device dry rehearses")->capture_default_str();
    app.add_option("--threads", flags.threads, "0: one per processor")->capture_default_str();
    app.add_flag("--convolutions", flags.convolutions, "with --device dry: what cuDNN would be asked for, a line each");
    app.add_flag("--tf32", flags.compute.tf32, "products of f32 are rounded to TF32");
    app.add_flag("--graphs", flags.compute.graphs, "micro-batches and steps are CUDA graphs");
    app.add_flag("--tune", flags.compute.tune, "try several algorithms for each product and convolution");
    for (const auto& [name, value] : {std::pair{"--batch", &flags.batch},
                                      {"--height", &flags.height},
                                      {"--width", &flags.width},
                                      {"--classes", &flags.classes},
                                      {"--warmup", &flags.warmup},
                                      {"--steps", &flags.steps}}) {
        app.add_option(name, *value)->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))->capture_default_str();
    }
    CLI11_PARSE(app, argc, argv);
    try {
        run(flags);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("model_step: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
