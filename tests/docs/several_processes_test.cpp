// The programs of docs/several_processes.md, in one process and by ranks that are threads.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/dist/world.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/training/data_task.hpp>
#include <headroom/training/trainer.hpp>

#include "points.hpp"

namespace headroom {
namespace several_processes_test {

using Points = data::MemoryDataset<std::int32_t>;

class Circle final : public training::DataTask<Points> {
  public:
    Circle(Parameters& parameters, std::int64_t batch, const Points& points, const Points& held_out)
        : DataTask(parameters, training::shuffled(points, held_out, batch)), model_(nn::Path(parameters)) {}
    Loss loss(const Batch& batch) override { return cross_entropy(model_(batch[0]), batch[1]); }

  private:
    Classifier model_;
};

Loss loss_of(const Classifier& model, const Points::Batch& batch) {
    Context& context = model.context();
    const Tensor logits = model(context.from_host(batch.features, {batch.rows, 2}));
    return cross_entropy(logits, context.from_host(batch.targets, {batch.rows}));
}

training::Trainer circle_trainer() {
    const Points points = circle_points(24), held_out = circle_points(9);
    return {training::task<Circle>(points, held_out),
            {.batch = 8, .accumulate = 4, .epochs = 4, .handle_signals = false, .print = false}};
}

TEST(SeveralProcesses, ATrainer) {
    training::Trainer trainer = circle_trainer();
    dist::World world = dist::World::join();          // alone: one rank, and MPI is not touched
    Context context = world.context({.seed = 1337});  // with its share of the processors
    const training::Report report = trainer.run(context);
    if (world.rank() == 0) fmt::print("{}\n", report.state_sha256);
    EXPECT_TRUE(report.ranks.empty());
    EXPECT_EQ(report.peak_bytes_allocated, report.forecast.peak.allocated);

    std::vector<training::Report> reports(3);
    dist::run_ranks(3, [&](const std::shared_ptr<Group>& group) {
        training::Trainer of_rank = circle_trainer();
        Context own = Context::cpu({.threads = 1, .seed = 1337, .group = group});
        reports[static_cast<std::size_t>(group->rank())] = of_rank.run(own);
    });
    for (const training::Report& each : reports) {
        EXPECT_EQ(each.state_sha256, reports[0].state_sha256);
        EXPECT_EQ(each.validation->loss, reports[0].validation->loss);
        EXPECT_NEAR(each.validation->loss, report.validation->loss, 1e-3);
        ASSERT_EQ(each.ranks.size(), 3u);
        for (const training::RankReport& rank : each.ranks) {
            EXPECT_EQ(rank.peak_bytes_allocated, rank.predicted_bytes_allocated);
            EXPECT_EQ(rank.peak_bytes_reserved, rank.predicted_bytes_reserved);
            EXPECT_GT(rank.sent_bytes, rank.parameter_bytes);
        }
    }
}

/// The values of the trained model.
std::vector<float> train(const dist::World& world, Context& context) {
    Parameters parameters(context);
    const Classifier model{nn::Path(parameters)};
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    const Points points = circle_points(24);
    data::DataLoader loader(points, data::Sampler::with_replacement(points.size(), /*batch=*/8, /*seed=*/1));
    loader.divide({.rank = world.rank(), .ranks = world.ranks(), .step = 8});
    for (int step = 0; step < 20; ++step) {
        accumulator.begin_step({.micro_batches = 8, .learning_rate = 2e-2});  // of all ranks
        while (accumulator.wants_more()) accumulator.accumulate([&] { return loss_of(model, *loader.next()); });
        accumulator.step();
    }
    EXPECT_LT(accumulator.result().loss, 0.65);
    return parameters.all().front().tensor.to_vector<float>();
}

TEST(SeveralProcesses, ALoopOfYourOwn) {
    const dist::World world = dist::World::join();
    Context context = world.context({.seed = 1337});
    EXPECT_FALSE(train(world, context).empty());
}

}  // namespace several_processes_test
}  // namespace headroom
