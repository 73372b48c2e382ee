// The trainer that docs/guide.md shows.
#include <filesystem>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/trainer.hpp>

#include "points.hpp"

namespace headroom {
namespace trainer_test {

using Points = data::MemoryDataset<std::int32_t>;

class Circle final : public training::DataTask<Points> {
  public:
    Circle(Parameters& parameters, std::int64_t batch, const Points& points, const Points& held_out)
        : DataTask(parameters, training::shuffled(points, held_out, batch)), model_(nn::Path(parameters)) {}
    Loss loss(const Batch& batch) override { return cross_entropy(model_(batch[0]), batch[1]); }
    training::Validation validate(const training::ProgressCallback& watch) override {  // without it, by the loss alone
        training::MeanLoss mean;
        training::Accuracy accuracy;
        each_validation_batch(watch, std::tie(mean, accuracy), [&](const Batch& batch, const auto&) {
            const Tensor logits = model_(batch[0]);
            mean.add(cross_entropy(logits, batch[1]));
            accuracy.add(logits, batch[1]);
        });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}};
    }

  private:
    Classifier model_;
};

TEST(Guide, TwoRules) {
    const Points points = circle_points(24), held_out = circle_points(9);
    const optim::ParameterGroup hidden{
        .pattern = "hidden.**", .learning_rate_factor = 10, .rule = optim::sgd_rule({.momentum = 0.9})};
    training::Trainer trainer(
        training::task<Circle>(points, held_out),
        {.batch = 32, .epochs = 20, .optimizer = training::adamw({.groups = {hidden}}), .schedule = {.peak = 2e-2}});

    Context context = Context::cpu();
    const training::Report report = trainer.run(context);
    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    EXPECT_LT(report.validation->loss, 0.3);
}

TEST(Guide, Trainer) {
    const test::ScratchFolder folder;
    std::filesystem::current_path(folder.path());
    const Points points = circle_points(24), held_out = circle_points(9);
    training::Trainer trainer(training::task<Circle>(points, held_out),
                              {.batch = 32,
                               .epochs = 20,
                               .schedule = {.decay = optim::Decay::cosine, .peak = 2e-2, .warmup_steps = 20},
                               .clip = 1.0,
                               .save = "circle.safetensors"});
    trainer.after_validation([](const training::ValidatedStep& step) {
        if (step.best) fmt::print("step {} is the best so far\n", step.number);
    });
    Context context = Context::cpu();
    const training::Report report = trainer.run(context);
    fmt::print("{} of {} bytes\n", report.peak_bytes_allocated, report.forecast.peak.allocated);

    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);
    EXPECT_EQ(report.steps, 20 * (576 / 32));
    EXPECT_LT(report.validation->loss, 0.3);  // log(2) = 0.7 by chance
    ASSERT_EQ(report.validation->metrics.size(), 1u);
    EXPECT_EQ(report.validation->metrics[0].name, "accuracy");
    EXPECT_GT(report.validation->metrics[0].value, 0.9);  // 0.5 by chance
    EXPECT_TRUE(std::filesystem::exists("circle.safetensors"));
}

}  // namespace trainer_test
}  // namespace headroom
