// What a program says of a training on a GPU, which works while the host does something else.
#include <headroom/examples/program/program.hpp>

#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>

namespace headroom::program {
namespace {

constexpr std::chrono::milliseconds kStep{5};

/// Takes some time, for sure.
class SlowTask final : public test::OneLayerTask {
  public:
    using test::OneLayerTask::OneLayerTask;
    Batch batch() override {
        std::this_thread::sleep_for(kStep);
        return test::OneLayerTask::batch();
    }
};

TEST(TrainCuda, NoStepIsFasterThanItWas) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const test::ScratchFolder folder;
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
        EXPECT_TRUE(figures["used"].is_number_unsigned()) << figures["used"];
        EXPECT_LE(rate, 1 / std::chrono::duration<double>(kStep).count()) << steps;
    }
}

}  // namespace
}  // namespace headroom::program
