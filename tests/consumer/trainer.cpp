// Trains a model of its own with the installed trainer: validated, interrupted as by Ctrl-C, resumed, and planned for a
// budget. Ends with an error unless the bits are those of a training that was neither. With an argument, one of two
// processes that train together.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include <headroom/headroom.hpp>

using namespace headroom;

namespace {

using Points = data::MemoryDataset<std::int32_t>;

/// Is y above the parabola x * x?
Points points(int per_side) {
    std::vector<float> features;
    std::vector<std::int32_t> labels;
    for (int i = 0; i < per_side * per_side; ++i) {
        const float x = 2.0f * float(i % per_side) / float(per_side) - 1.0f, y = float(i / per_side) / float(per_side);
        features.insert(features.end(), {x, y});
        labels.push_back(y > x * x ? 1 : 0);
    }
    return {std::move(features), {2}, std::move(labels)};
}

class Parabola final : public training::DataTask<Points> {
  public:
    Parabola(Parameters& parameters, std::int64_t batch, const Points& training, const Points& validation)
        : DataTask(parameters, training::shuffled(training, validation, batch)),
          net_(nn::sequential(nn::Linear(nn::Path(parameters) / "in", 2, 16), tanh_of,
                              nn::Linear(nn::Path(parameters) / "out", 16, 2))) {}
    Loss loss(const Batch& batch) override { return cross_entropy(net_(batch[0]), batch[1]); }
    training::Validation validate(const training::ProgressCallback& watch) override {
        training::MeanLoss mean;
        training::Accuracy accuracy;
        each_validation_batch(watch, std::tie(mean, accuracy), [&](const Batch& batch, const HostBatch&) {
            const Tensor logits = net_(batch[0]);
            mean.add(cross_entropy(logits, batch[1]));
            accuracy.add(logits, batch[1]);
        });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}};
    }

  private:
    static Tensor tanh_of(Tensor x) { return tanh(std::move(x)); }
    using Net = decltype(nn::sequential(std::declval<nn::Linear>(), tanh_of, std::declval<nn::Linear>()));
    Net net_;
};

training::Report train(const training::TrainerOptions& options, std::int64_t interrupted_after = 0) {
    training::Trainer trainer(training::task<Parabola>(points(20), points(11)), options);
    trainer.after_step([=](const training::Step& step) {
        if (step.number == interrupted_after) std::raise(SIGINT);
    });
    Context context = Context::cpu({.threads = 2, .seed = 3});
    return trainer.run(context);
}

void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "trainer: %s\n", what);
    std::exit(1);
}

/// The same by two processes, which share a step's micro-batches.
int train_together() {
    dist::World world = dist::World::join();
    check(world.ranks() == 2, "it is not one of two processes");
    training::Trainer trainer(
        training::task<Parabola>(points(20), points(11)),
        {.batch = 10, .accumulate = 2, .epochs = 8, .schedule = {.peak = 0.02}, .save = "together.safetensors"});
    Context context = world.context({.seed = 3});
    const training::Report report = trainer.run(context);
    check(report.complete && report.validation->metrics[0].value > 0.8, "it did not learn");
    check(report.ranks.size() == 2 && report.ranks[0].sent_bytes > 0, "nothing was sent");
    check(report.peak_bytes_allocated == report.forecast.peak.allocated, "the predicted peak is not the real one");
    const std::vector<std::string> states = all_gather(*world.group(), report.state_sha256);
    check(states[0] == states[1], "the two have not the same bits");
    if (world.rank() == 0) std::printf("accuracy %.2f by two\n", report.validation->metrics[0].value);
    return 0;
}

}  // namespace

int main(int count, char**) {
    if (count > 1) return train_together();
    training::TrainerOptions options{.batch = 20, .epochs = 8, .schedule = {.peak = 0.02}, .save = "whole.safetensors"};
    const training::Report whole = train(options);
    check(whole.complete && whole.validation && whole.validation->metrics[0].value > 0.8, "it did not learn");
    check(whole.peak_bytes_allocated == whole.forecast.peak.allocated, "the predicted peak is not the real one");
    options.save = "interrupted.safetensors";
    const training::Report interrupted = train(options, 50);
    check(interrupted.signal == SIGINT && !interrupted.complete, "it was not interrupted");
    options.resume = options.save;
    check(train(options).state_sha256 == whole.state_sha256, "the resumed training has other bits");
    options.resume.clear();
    options.budget = whole.peak_bytes_reserved;
    const training::Report planned = train(options);
    check(planned.planned && planned.peak_bytes_reserved <= options.budget, "the plan does not keep within the budget");
    check(planned.state_sha256 == whole.state_sha256, "the plan changes bits");
    std::printf("accuracy %.2f\n", whole.validation->metrics[0].value);
    return 0;
}
