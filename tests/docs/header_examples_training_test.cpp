// The examples of training headers: each is compiled as the header shows it.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/training/average_precision.hpp>
#include <headroom/training/clock.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/endless_task.hpp>
#include <headroom/training/event_file.hpp>
#include <headroom/training/history_file.hpp>
#include <headroom/training/interrupt.hpp>
#include <headroom/training/metrics.hpp>
#include <headroom/training/numbered_draws.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/progress.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/task.hpp>
#include <headroom/training/trainer.hpp>

namespace header_examples {
namespace header_examples_training_test {

using namespace headroom;

struct Net : nn::Linear {
    explicit Net(const nn::Path& path) : Linear(path, 784, 10) {}
};

void step() {}

struct Digits : training::DataTask<data::ImageDataset> {
    Digits(Parameters& parameters, std::int64_t batch, const data::ImageDataset& images)
        : DataTask(parameters, training::shuffled(images, images, batch)), net(nn::Path(parameters)) {}
    Loss loss(const Batch& batch) override { return cross_entropy(net(batch[0]), batch[1]); }
    Net net;
};

void average_precision_example(std::vector<training::Detection> found, data::ImageSample sample) {
    training::AveragePrecision ap50(training::box_overlap);
    for (int image = 0; image < 2; ++image) ap50.add(found, sample.objects);
    const double mean = ap50.mean();
}

void clock_example(std::chrono::nanoseconds simulated) {
    training::TrainerOptions options;
    options.clock = [&] { return training::Moment(simulated); };
}

void data_task_example() {
    class Digits final : public training::DataTask<data::ImageDataset> {
      public:
        Digits(Parameters& parameters, std::int64_t batch, const data::ImageDataset& training,
               const data::ImageDataset& validation)
            : DataTask(parameters, training::shuffled(training, validation, batch)), net_(nn::Path(parameters)) {}
        Loss loss(const Batch& batch) override { return cross_entropy(net_(batch[0]), batch[1]); }
        training::Validation validate(const training::ProgressCallback& watch) override {
            training::MeanLoss mean;
            training::Accuracy accuracy;
            each_validation_batch(watch, std::tie(mean, accuracy), [&](const Batch& batch, const data::ImageBatch&) {
                const Tensor logits = net_(batch[0]);
                mean.add(cross_entropy(logits, batch[1]));
                accuracy.add(logits, batch[1]);
            });
            return {.loss = mean.value(), .metrics = {accuracy.metric()}};
        }

      private:
        Net net_;
    };
}

namespace endless_task_example {
class Line final : public training::EndlessTask {
  public:
    Line(Parameters& parameters, std::int64_t batch) : model_(nn::Path(parameters), 2, 1), batch_(batch) {}
    Batch batch() override {
        Tensor x, y;
        return {x, y};
    }
    Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1]); }

  private:
    nn::Linear model_;
    std::int64_t batch_;
};
static_assert(std::is_constructible_v<Line, Parameters&, std::int64_t>);
}  // namespace endless_task_example

void event_file_example() {
    training::EventFile events("runs/first");
    events.add(100, "train/loss", 2.5);
    events.flush();
}

void history_file_example(Context& context, training::Session& session) {
    training::with_history(context, "memory.html", "keep all", [&] { session.step(); });
}

void interrupt_example() {
    training::Interrupt interrupt;
    while (!interrupt.requested()) step();
}

training::Validation metrics_example(Tensor logits, Tensor labels) {
    training::MeanLoss loss;
    training::Accuracy accuracy;
    // ...
    loss.add(cross_entropy(logits, labels));
    accuracy.add(logits, labels);
    return training::Validation{.loss = loss.value(), .metrics = {accuracy.metric()}};
}

void numbered_draws_example(Context& context) {
    const training::NumberedDraws draws(context, training::NumberedDraws::Of::validations, 3);
    const Tensor noise = randn(context, {8, 2});
}

void options_example() {
    const training::TrainerOptions options{.batch = 64,
                                           .epochs = 5,
                                           .optimizer = training::sgd({.momentum = 0.9}),
                                           .schedule = {.decay = optim::Decay::cosine, .peak = 0.1},
                                           .save = "run.safetensors"};
}

void progress_example() {
    training::Progress progress(2000, "tokens");
    progress.show({.step = 100, .loss = 2.5, .rate = 21000, .peak_bytes = 24'000'000});
    progress.end();
}

void say_example(const std::string& path) {
    training::say("saved to {}", path);
    training::say("peak {}", training::size_text(24'612'345));
}

void session_example(Context& context, const data::ImageDataset& images, const training::TrainerOptions& options) {
    training::Session session(context, training::task<Digits>(images), options);
    for (int i = 0; i < 10; ++i) session.step();
    double training_loss = session.results().back().loss;
    double loss = session.validate().loss;
}

namespace task_example {
struct Order {
    StateDict state_dict() const { return {}; }
    void restore(const StateValues&) {}
};

class Line final : public training::Task {
  public:
    Line(Parameters& parameters, std::int64_t batch) : model_(nn::Path(parameters), 2, 1), batch_(batch) {}
    Batch batch() override {
        Tensor x, y;
        return {x, y};
    }
    Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1]); }

    training::Validation validate(const training::ProgressCallback&) override { return {}; }
    std::int64_t validation_batches() const override { return 0; }
    std::int64_t batches_per_epoch() const override { return 100; }
    files::CheckpointPart order() override { return order_; }

  private:
    nn::Linear model_;
    std::int64_t batch_;
    Order order_;
};
static_assert(std::is_constructible_v<Line, Parameters&, std::int64_t>);
}  // namespace task_example

void trainer_example(const data::ImageDataset& images, const data::ImageDataset& held_out) {
    class Digits final : public training::DataTask<data::ImageDataset> {
      public:
        Digits(Parameters& parameters, std::int64_t batch, const data::ImageDataset& training,
               const data::ImageDataset& validation)
            : DataTask(parameters, training::shuffled(training, validation, batch)) {}
        Loss loss(const Batch& batch) override { return mse_loss(batch[0], batch[0]); }
    };
    training::Trainer trainer(training::task<Digits>(images, held_out),
                              {.batch = 64, .epochs = 5, .save = "run.safetensors", .best = "best.safetensors"});
    trainer.after_step([](const training::Step& step) { (void)step; });
    Context context = Context::best();
    const training::Report report = trainer.run(context);
    fmt::print("{} of {} bytes\n", report.peak_bytes_allocated, report.forecast.peak.allocated);
}

TEST(HeaderExamples, OfTrainingRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    average_precision_example({}, {});
    clock_example(std::chrono::nanoseconds(1));
    data_task_example();
    metrics_example(ones(context, {2, 3}), arange(context, 0, 2));
    numbered_draws_example(context);
    options_example();
    progress_example();
    say_example("run.safetensors");
}

}  // namespace header_examples_training_test
}  // namespace header_examples
