// Trains a multi-layer perceptron on MNIST's images in IDX files, compressed or not.
#include <memory>

#include <nlohmann/json.hpp>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/examples/mnist/images.hpp>
#include <headroom/examples/program/epochs.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/program.hpp>
#include <headroom/examples/program/ranges.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/sequential.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::mnist {
namespace {

struct Flags : program::EpochFlags {
    Flags() {
        batch = 100;
        epochs = 30;
        min_lr = clip = 0;
        warmup = 20;
        weight_decay = 0.05;
        beta2 = 0.999;
    }
    std::string data;
    std::int64_t hidden = 512;
    std::int64_t shift = 2;  ///< pixels
    std::int64_t validation = 0;
    double dropout = 0.3;
};

void add_flags(CLI::App& app, Flags& flags) {
    const auto count = program::whole(1, 1 << 20);
    app.add_option("--data", flags.data,
                   "folder with images and labels: train-* to train on and t10k-* to validate; t10k-* alone is split")
        ->required();
    app.add_option("--hidden", flags.hidden, "width of the two hidden layers")->check(count)->capture_default_str();
    program::add_epochs(app, flags);
    app.add_option("--shift", flags.shift, "shift training images by up to this many pixels each way")
        ->check(program::whole(0, kSide - 1))
        ->capture_default_str();
    app.add_option("--validation", flags.validation,
                   "images for validation; by default all of t10k-*, or 1000 of a split")
        ->check(count);
    app.add_option("--dropout", flags.dropout, "probability")->check(program::real(0, 0.99))->capture_default_str();
    program::add_flags(app, flags);
}

/// 784 -> hidden -> hidden -> 10 with ReLU and dropout.
auto make_model(const nn::Path& path, const Flags& flags) {
    const auto activate = [](Tensor x) { return relu(std::move(x)); };
    return nn::sequential(nn::Linear(path / "fc1", kSide * kSide, flags.hidden), activate,
                          nn::Dropout(path / "drop1", flags.dropout),
                          nn::Linear(path / "fc2", flags.hidden, flags.hidden), activate,
                          nn::Dropout(path / "drop2", flags.dropout), nn::Linear(path / "fc3", flags.hidden, 10));
}

class Digits final : public training::DataTask<Images> {
  public:
    Digits(Parameters& parameters, const Flags& flags, std::int64_t batch, const Split& images)
        : DataTask(parameters, training::shuffled(images.training, images.validation, batch, flags.seed),
                   {.changed_data = flags.changed_data}),
          flags_(flags),
          model_(make_model(nn::Path(parameters), flags)) {}

    Batch batch() override {
        const data::DataLoaderState at = loader().state();
        const auto number = static_cast<std::uint64_t>(at.epoch * at.batches_per_epoch + at.batch);
        Images::Batch batch = next();
        if (flags_.shift > 0) {
            shift(batch.features, batch.rows, flags_.shift,
                  kernels::random_key(flags_.seed, kernels::RandomDomain::data, number));
        }
        return to_tensors(batch);
    }

    Loss loss(const Batch& batch) override { return cross_entropy(model_(batch[0]), batch[1]); }

    training::Validation validate(const training::Watch& watch) override {
        training::MeanLoss mean;
        training::Accuracy accuracy;
        training::ClassesSeen classes(10);
        each_validation_batch(watch, [&](const Batch& batch, const Images::Batch& host) {
            const Tensor logits = model_(batch[0]);
            mean.add(cross_entropy(logits, batch[1]));
            accuracy.add(logits, batch[1]);
            classes.add(host.targets);
        });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}, .note = classes.note()};
    }

    std::string describe() const override {
        const nlohmann::json json{{"model", {{"hidden", flags_.hidden}, {"dropout", flags_.dropout}}},
                                  {"data", {{"shift", flags_.shift}}}};
        return json.dump();
    }

  private:
    const Flags& flags_;
    decltype(make_model(std::declval<nn::Path>(), std::declval<Flags>())) model_;
};

program::Program digits_program(Flags& flags) {
    const auto images = std::make_shared<const Split>(read_images(flags.data, flags.validation, flags.batch));
    program::set_steps(flags, images->training.size());
    return {.data = images->what,
            .unit = "samples",
            .reads = {{"--data", flags.data}},
            .task = [&flags, images](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<Digits>(parameters, flags, batch, *images);
            }};
}

}  // namespace
}  // namespace headroom::mnist

int main(int argc, char** argv) {
    using namespace headroom;
    CLI::App app("Trains a multi-layer perceptron on MNIST.", "train_mnist");
    mnist::Flags flags;
    mnist::add_flags(app, flags);
    return program::run(app, argc, argv, [&] { program::train(flags, [&] { return mnist::digits_program(flags); }); });
}
