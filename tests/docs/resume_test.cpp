// What docs/guide.md shows of saving and resuming.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

#include "points.hpp"

namespace headroom {
namespace resume_test {

using Points = data::MemoryDataset<std::int32_t>;

struct Training {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters{context};
    Classifier model{parameters};
    optim::AdamW optimizer{parameters};
    optim::GradientAccumulator accumulator{parameters, optimizer};
    Points points = circle_points(10);
    data::DataLoader<Points> loader{points, data::Sampler::shuffled(points.size(), 32, 1)};

    void run(int steps) {
        while (steps > 0) {
            const Points::Batch* batch = loader.next();
            if (!batch) continue;
            accumulator.accumulate([&] {
                const Tensor logits = model(context.from_host(batch->features, {batch->rows, 2}));
                return cross_entropy(logits, context.from_host(batch->targets, {batch->rows}));
            });
            accumulator.step(1e-2);
            --steps;
        }
    }

    void save(const std::filesystem::path& path) {
        files::save_checkpoint(path, context, {parameters, optimizer, accumulator, loader});
    }

    void resume(const std::filesystem::path& path) {
        files::load_checkpoint(path, context, {parameters, optimizer, accumulator, loader});
    }

    std::string hash() { return files::state_sha256(context, {parameters, optimizer}); }
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

}  // namespace resume_test
}  // namespace headroom
