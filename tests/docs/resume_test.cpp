// What docs/guide.md shows of saving and resuming.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/data/loader.hpp>
#include <headroom/nn/checkpoint.hpp>
#include <headroom/nn/state_hash.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/window.hpp>

#include "points.hpp"

namespace headroom {
namespace {

using Points = MemoryDataset<std::int32_t>;

struct Training {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters{context};
    Classifier model{At(parameters)};
    AdamW optimizer{parameters};
    Window window{parameters, optimizer};
    Points points = circle_points(10);
    Loader<Points> loader{points, Sampler::shuffled(points.size(), 32, 1)};

    void run(int steps) {
        while (steps > 0) {
            const Points::Batch* batch = loader.next();
            if (!batch) continue;
            window.accumulate([&] {
                const Tensor logits = model(context.from_host(batch->features, {batch->rows, 2}));
                const Tensor loss = cross_entropy(logits, context.from_host(batch->targets, {batch->rows}));
                return MicroBatch{loss, static_cast<double>(batch->rows)};
            });
            window.step(1e-2);
            --steps;
        }
    }

    void save(const std::filesystem::path& path) {
        const LoaderState at = loader.state();
        save_parameters(path, parameters, optimizer.state(),
                        {{"steps", fmt::to_string(optimizer.steps())},
                         {"random_counter", fmt::to_string(context.random_counter())},
                         {"epoch", fmt::to_string(at.epoch)},
                         {"batch", fmt::to_string(at.batch)}});
    }

    void resume(const std::filesystem::path& path) {
        const SafetensorsFile file(path);
        load_parameters(file, parameters, {.extra = optimizer.state()});
        const auto number = [&](const char* name) { return std::stoll(file.metadata().at(name)); };
        optimizer.set_steps(number("steps"));
        context.set_random_counter(static_cast<std::uint64_t>(number("random_counter")));
        LoaderState at = loader.state();
        at.epoch = number("epoch");
        at.batch = number("batch");
        loader.restore(at);
    }

    std::string hash() { return state_sha256(parameters, optimizer.state(), context.random_counter()); }
};

TEST(Guide, ResumedTrainingIsBitEqual) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "headroom_guide.safetensors";
    Training whole;
    whole.run(9);
    Training first;
    first.run(5);
    first.save(path);
    Training second;
    second.resume(path);
    second.run(4);
    EXPECT_EQ(second.hash(), whole.hash());
    EXPECT_NE(first.hash(), whole.hash());
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace headroom
