// A whole training in a file: whatever parts it has, and with what else the program keeps.
#include <headroom/files/checkpoint.hpp>

#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::nn {
namespace training_checkpoint_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;
using test::Regression;
using Rows = data::MemoryDataset<std::int32_t>;

Rows numbers() {
    std::vector<float> features;
    std::vector<std::int32_t> targets;
    for (int i = 0; i < 64; ++i) features.push_back(static_cast<float>(i)), targets.push_back(i);
    return Rows(std::move(features), {1}, std::move(targets));
}

/// Two models in one context, each with its optimizer, one stream of data; dropout draws random numbers.
struct Training {
    explicit Training(std::uint64_t seed, std::uint64_t order = 3)
        : context(Context::cpu({.threads = 1, .seed = seed})) {
        loader.emplace(rows, data::Sampler::shuffled(rows.size(), 8, order));
    }
    void run(int steps) {
        for (; steps > 0; --steps) {
            const Rows::Batch* batch = loader->next();
            if (!batch) batch = loader->next();
            generator_steps.accumulate([&] { return noisy(generator, batch->targets[0] % 32); });
            generator_steps.step(0.01);
            critic_steps.accumulate([&] { return noisy(critic, batch->targets[1] % 32); });
            critic_steps.step(0.02);
            ++done;
        }
    }
    Loss noisy(Regression& model, std::int64_t row) {
        const Loss loss = model.loss(row, 8);
        return {loss.sum() + sum(mul(model.up, randn(context, model.up.shape()))), 8.0};
    }
    files::CheckpointParts parts() {
        return {generator.parameters, critic.parameters, adamw, sgd, generator_steps, critic_steps, *loader};
    }
    void save(const std::filesystem::path& path) {
        files::save_checkpoint(path, context, parts(), {{"done", fmt::to_string(done)}});
    }
    void resume(const std::filesystem::path& path) {
        done = state_value<std::int64_t>(files::load_checkpoint(path, context, parts()), "done");
    }
    std::string hash() { return files::state_sha256(context, parts()); }

    Context context;
    Regression generator{context, Dtype::f32, "generator"}, critic{context, Dtype::f32, "critic"};
    optim::AdamW adamw{generator.parameters};
    optim::Sgd sgd{critic.parameters, {.momentum = 0.9}};
    optim::GradientAccumulator generator_steps{
        generator.parameters, adamw, {.scale = optim::LossScale::dynamic({.interval = 3})}};
    optim::GradientAccumulator critic_steps{critic.parameters, sgd};
    Rows rows = numbers();
    std::optional<data::DataLoader<Rows>> loader;
    std::int64_t done = 0;
};

class TrainingCheckpoint : public ::testing::Test {
  protected:
    ScratchFolder folder;
    std::filesystem::path path = folder.path() / "run.safetensors";
};

TEST_F(TrainingCheckpoint, ResumesBitForBitWhateverItsParts) {
    Training whole(1), first(1), second(2);
    whole.run(13);
    first.run(7);
    first.save(path);
    second.resume(path);
    EXPECT_EQ(second.hash(), first.hash());
    EXPECT_EQ(second.done, 7);
    second.run(6);
    EXPECT_EQ(second.hash(), whole.hash());
    EXPECT_EQ(second.context.random_counter(), whole.context.random_counter());
    EXPECT_EQ(second.context.seed(), 1u);
    EXPECT_EQ(second.adamw.steps(), 13);
    EXPECT_EQ(second.generator_steps.loss_scale().value(), whole.generator_steps.loss_scale().value());
}

TEST_F(TrainingCheckpoint, NamesTheOptimizerThatItWasTrainedWith) {
    Training saved(1), other(2);
    saved.run(1);
    saved.save(path);
    optim::Sgd sgd(other.generator.parameters, {.momentum = 0.9});
    const std::string before = other.hash();
    EXPECT_THAT(
        [&] {
            files::load_checkpoint(path, other.context, {other.generator.parameters, sgd});
        },
        throws<Error>("run.safetensors: it was trained with the optimizer adamw, and can't be resumed with sgd"));
    EXPECT_EQ(other.hash(), before);
}

TEST_F(TrainingCheckpoint, HasTheParametersForAnotherTraining) {
    Training saved(1), other(2);
    saved.run(1);
    saved.save(path);
    std::vector<NamedArray> wanted = other.generator.parameters.state_dict().arrays;
    EXPECT_THAT([&] { files::load_arrays(files::SafetensorsFile(path), other.context, wanted); },
                throws<Error>("has critic.down.bias, which the model lacks; tensors that differ: 4;"));
    const auto is_critic = [](std::string_view name) { return name.starts_with("critic."); };
    const files::LoadReport report =
        files::load_arrays(files::SafetensorsFile(path), other.context, wanted, {.ignore = is_critic});
    EXPECT_EQ(report.loaded.size(), 4u);
    EXPECT_THAT(report.left_over, ::testing::IsEmpty());
    EXPECT_EQ(other.generator.values(), saved.generator.values());
}

TEST_F(TrainingCheckpoint, TwoModelsOfOneShapeHaveNamesAndWeightsOfTheirOwn) {
    Training training(1);
    EXPECT_NE(training.generator.values(), training.critic.values());
    training.save(path);
    const files::SafetensorsFile file(path);
    EXPECT_NE(file.find("generator.up.weight"), nullptr);
    EXPECT_NE(file.find("adamw.first_moment.generator.up.weight"), nullptr);
    EXPECT_NE(file.find("sgd.velocity.critic.down.bias"), nullptr);
    EXPECT_EQ(file.metadata().at("adamw.generator.steps"), "0");
}

TEST_F(TrainingCheckpoint, ChangesNothingWhereOnePartDoesNotFit) {
    Training first(1), other(2, /*order=*/4);
    first.run(3);
    first.save(path);
    other.run(1);
    const std::string before = other.hash();
    EXPECT_THAT([&] { other.resume(path); }, throws<Error>(path.string(), "seed"));  // the last part: the loader
    EXPECT_EQ(other.hash(), before);
    EXPECT_EQ(other.adamw.steps(), 1);
    EXPECT_EQ(other.context.seed(), 2u);
    EXPECT_THAT(
        [&] {
            files::load_checkpoint(path, other.context, {other.generator.parameters, other.adamw});
        },
        throws<Error>(path.string(), "has critic.down.bias"));
    EXPECT_EQ(other.hash(), before);
    EXPECT_EQ(other.adamw.steps(), 1);
}

TEST_F(TrainingCheckpoint, ASecondPartOfAKindNeedsAName) {
    Training training(1);
    data::DataLoader validation(training.rows, data::Sampler::sequential(training.rows.size(), 4));
    EXPECT_THAT(
        [&] {
            files::save_checkpoint(path, training.context, {*training.loader, validation});
        },
        throws<Error>("loader.batch"));
    validation.next();
    files::save_checkpoint(path, training.context, {*training.loader, {"validation", validation}});
    data::DataLoader again(training.rows, data::Sampler::sequential(training.rows.size(), 4));
    files::load_checkpoint(path, training.context, {*training.loader, {"validation", again}});
    EXPECT_EQ(again.state(), validation.state());
}

TEST_F(TrainingCheckpoint, HoldsPartsOfTheProgramsOwn) {
    struct Average {
        StateDict state_dict() {
            return {{{"average.loss", loss.array()}}, {{"average.count", fmt::to_string(count)}}};
        }
        void restore(const StateValues& values) { count = state_value<std::int64_t>(values, "average.count"); }
        Tensor loss;
        std::int64_t count;
    };
    Context context = Context::cpu({.threads = 1});
    Average saved{context.scalar(1.5), 7}, loaded{context.scalar(0), 0};
    files::save_checkpoint(path, context, {saved}, {{"note", "two words"}});
    EXPECT_EQ(files::load_checkpoint(path, context, {loaded}).at("note"), "two words");
    EXPECT_EQ(loaded.loss.item(), 1.5);
    EXPECT_EQ(loaded.count, 7);
}

TEST_F(TrainingCheckpoint, IsNotSavedWithinAStep) {
    Training training(1);
    training.generator_steps.accumulate([&] { return training.generator.loss(0, 8); });
    EXPECT_THAT([&] { training.save(path); }, throws<Error>("call step() or reset() first"));
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(TrainingCheckpoint, ParametersOfOneNameAreRefused) {
    Context context = Context::cpu({.threads = 1});
    const Parameters first(context);
    EXPECT_THAT([&] { Parameters second(context); }, throws<Error>("already has parameters without a name"));
    const Parameters critic(context, {.name = "critic"});
    EXPECT_THAT([&] { Parameters second(context, {.name = "critic"}); },
                throws<Error>("already has parameters named \"critic\""));
    EXPECT_THAT([&] { Parameters second(context, {.name = "a.b"}); }, throws<Error>("one segment"));
    { const Parameters scoped(context, {.name = "scoped"}); }
    EXPECT_NO_THROW(Parameters(context, {.name = "scoped"}));
}

}  // namespace training_checkpoint_test
}  // namespace headroom::nn
