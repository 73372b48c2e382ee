// Trains a perceptron on MNIST's digits by a loop of its own: data, model, steps and validation in one file to begin
// with. The other programs leave the loop to `training::Trainer`, which also rehearses, saves, resumes and writes logs.
#include <chrono>
#include <exception>
#include <fstream>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/headroom.hpp>

using namespace headroom;

namespace {

using Digits = data::MemoryDataset<std::int32_t>;

constexpr std::int64_t kClasses = 10, kHidden = 512, kBatch = 100, kEpochs = 30;
constexpr std::uint64_t kSeed = 1;

Digits read_digits(const std::string& folder, const char* part) {
    const data::LabelledImages read = data::read_labelled_images(folder, part, kClasses);
    return Digits::images(read.images.pixels, {read.images.rows * read.images.columns},
                          {read.labels.begin(), read.labels.end()}, {.mean = 0.1307f, .std = 0.3081f});
}

/// Those to train on, and those to validate.
std::pair<Digits, Digits> read_split(const std::string& folder) {
    const Digits test = read_digits(folder, "t10k");
    if (data::has_labelled_images(folder, "train")) return {read_digits(folder, "train"), test};
    const std::int64_t held = test.size() / 10, rest = test.size() - held;
    return {test.slice(0, rest), test.slice(rest, held)};
}

auto make_model(const nn::Path& path, std::int64_t pixels) {
    const auto activate = [](Tensor x) { return relu(std::move(x)); };
    return nn::sequential(nn::Linear(path / "fc1", pixels, kHidden), activate, nn::Dropout(path / "drop1", 0.3),
                          nn::Linear(path / "fc2", kHidden, kHidden), activate, nn::Dropout(path / "drop2", 0.3),
                          nn::Linear(path / "fc3", kHidden, kClasses));
}

nlohmann::ordered_json train(const std::string& folder) {
    const auto begin = std::chrono::steady_clock::now();
    const auto [training, validation] = read_split(folder);
    Context context = Context::best({.seed = kSeed});
    Parameters parameters(context);
    const std::int64_t pixels = training.sample_shape()[0];
    const auto model = make_model(nn::Path(parameters), pixels);
    const auto logits_of = [&](const Digits::Batch& batch) {
        return model(context.from_host(batch.features, {batch.rows, pixels}));
    };
    const auto labels_of = [&](const Digits::Batch& batch) { return context.from_host(batch.targets, {batch.rows}); };

    data::DataLoader loader(training, data::Sampler::shuffled(training.size(), kBatch, kSeed, {.drop_last = true}));
    const std::int64_t steps = kEpochs * loader.sampler().batches();
    optim::AdamW optimizer(parameters, {.weight_decay = 0.05});
    optim::GradientAccumulator accumulator(parameters, optimizer);
    const optim::Schedule rate{.decay = optim::Decay::cosine, .peak = 1e-3, .warmup_steps = 20, .decay_steps = steps};
    for (std::int64_t step = 0; step < steps;) {
        const Digits::Batch* batch = loader.next();
        if (!batch) continue;  // an epoch has ended
        accumulator.accumulate([&] { return cross_entropy(logits_of(*batch), labels_of(*batch)); });
        accumulator.step(rate(step++));
        if (step % 500 == 0 || step == steps)
            fmt::print("step {}/{}  loss {:.4f}\n", step, steps, accumulator.result().loss);
    }

    const EvaluationScope evaluation(parameters);
    double right = 0;
    data::DataLoader in_order(validation, data::Sampler::sequential(validation.size(), kBatch), {.epochs = 1});
    while (const Digits::Batch* batch = in_order.next())
        right += sum(argmax(logits_of(*batch)) == labels_of(*batch)).item();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return {{"val_accuracy", right / static_cast<double>(validation.size())},
            {"train_loss", accumulator.result().loss},
            {"seconds", seconds.count()},
            {"steps", steps},
            {"parameters", parameters.count()}};
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Trains a perceptron on MNIST.", "train_mnist");
    std::string folder, file;
    app.add_option("--data", folder,
                   "folder with train-* and t10k-*, or with t10k-* alone, a tenth of which is then for validation")
        ->required();
    app.add_option("--json", file, "JSON file for the results of the run");
    CLI11_PARSE(app, argc, argv);
    try {
        const nlohmann::ordered_json figures = train(folder);
        fmt::print("{}\n", figures.dump());
        if (!file.empty() && !(std::ofstream(file) << figures.dump(2) << '\n'))
            throw Error(fmt::format("--json {}: it can't be written", file));
    } catch (const std::exception& error) {
        fmt::print(stderr, "train_mnist: {}\n", error.what());
        return 1;
    }
}
