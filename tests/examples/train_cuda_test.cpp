// What a program says of a training on a GPU, which works while the host does something else.
#include <headroom/examples/program/training.hpp>

#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::program {
namespace {

constexpr std::chrono::milliseconds kStep{5};

/// Takes some time, for sure.
class SlowTask final : public Task {
  public:
    explicit SlowTask(Parameters& parameters) : model_(nn::Path(parameters), 2, 1), context_(parameters.context()) {}
    Batch batch() override {
        std::this_thread::sleep_for(kStep);
        return {ones(context_, {1, 2}), Tensor()};
    }
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), 1); }
    Validation evaluate() override { return {}; }
    nn::CheckpointPart order() override { return order_; }
    nlohmann::json describe() const override { return nlohmann::json::object(); }

  private:
    struct Order {
        StateDict state_dict() const { return {}; }
        void restore(const StateValues&) {}
    };
    nn::Linear model_;
    Context& context_;
    Order order_;
};

TEST(TrainCuda, NoStepIsFasterThanItWas) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const testing::ScratchFolder folder;
    for (const std::int64_t steps : {1, 2, 3, 25}) {
        Flags flags;
        flags.device = "cuda";
        flags.steps = steps;
        flags.batch = 1;
        flags.json = folder.path() / "figures.json";
        train(flags, [] {
            Program program;
            program.unit = "samples";
            program.task = [](Parameters& parameters, std::int64_t) { return std::make_unique<SlowTask>(parameters); };
            return program;
        });
        const nlohmann::json figures = nlohmann::json::parse(std::ifstream(flags.json));
        const double rate = figures["samples_per_second"];
        EXPECT_GT(rate, 0) << steps;
        EXPECT_LE(rate, 1 / std::chrono::duration<double>(kStep).count()) << steps;
    }
}

}  // namespace
}  // namespace headroom::program
