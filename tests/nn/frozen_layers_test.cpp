// Layers that are not trained cost neither gradients nor moments, nor what a backward pass through them would.
#include <functional>
#include <optional>

#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/pool.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::nn {
namespace frozen_layers_test {

/// A ResNet whose stem and first stage may be frozen.
struct Training {
    explicit Training(bool frozen) {
        for (const char* pattern : {"conv1.*", "layer1.**"}) {
            if (frozen) parameters.freeze(pattern);
        }
        for (const Parameter& parameter : parameters.all()) {
            if (!parameter.buffer && !parameter.trained) elements += static_cast<std::size_t>(parameter.tensor.numel());
        }
        optimizer.emplace(parameters, optim::SgdOptions{.momentum = 0.9});
        accumulator.emplace(parameters, *optimizer, optim::GradientAccumulatorOptions{.keep_gradients = true});
    }
    void step(const std::function<Tensor()>& logits) {
        accumulator->accumulate([&] {
            Loss loss = cross_entropy(logits(), context.from_host(std::vector<std::int64_t>{1, 3}, {2}));
            held = bytes(Category::activations);
            return loss;
        });
        accumulator->step(0.01);
    }
    void step() {
        step([&] { return model(images()); });
    }
    /// What the first stage makes of the images, as an input of its own.
    Tensor first_stage() {
        const NoGradGuard no_grad(context);
        return model.features(images())[0];
    }
    Tensor behind_first_stage(Tensor x) const {
        for (std::size_t i = 1; i < model.layers.size(); ++i) {
            for (const ResNetBlock& block : model.layers[i]) x = block(std::move(x));
        }
        x = global_avg_pool2d(std::move(x));
        return (*model.fc)(x.reshape({x.size(0), x.size(1)}));
    }
    Tensor images() {
        std::vector<float> values;
        for (int i = 0; i < 2 * 3 * 40 * 40; ++i) values.push_back(static_cast<float>(i * 37 % 101) / 50 - 1);
        return context.from_host(values, {2, 3, 40, 40});
    }
    std::size_t bytes(Category category) {
        return context.memory().statistics().allocated_by_category[static_cast<std::size_t>(category)];
    }

    Context context = Context::cpu({.threads = 2, .seed = 1});
    Parameters parameters{context};
    ResNet model{parameters, {.blocks = {2, 1, 1, 1}, .classes = 5, .width = 4, .frozen_norms = true}};
    std::optional<optim::Sgd> optimizer;
    std::optional<optim::GradientAccumulator> accumulator;
    std::size_t elements = 0;  ///< of what is frozen
    std::size_t held = 0;      ///< bytes of activations when the loss is there
};

TEST(FrozenLayers, HaveNeitherGradientsNorMoments) {
    Training all(false), frozen(true);
    all.step(), frozen.step();
    ASSERT_GT(frozen.elements, 0u);
    for (const Category category : {Category::gradients, Category::optimizer_state}) {
        EXPECT_LE(frozen.bytes(category) + frozen.elements * sizeof(float), all.bytes(category));
    }
    std::size_t trained = 0;
    for (const GradientSegment& segment : frozen.parameters.segments())
        trained += static_cast<std::size_t>(segment.count);
    EXPECT_EQ(frozen.bytes(Category::gradients), trained * sizeof(float));
    for (const Parameter& parameter : frozen.parameters.all())
        EXPECT_EQ(parameter.tensor.grad().defined(), parameter.trained) << parameter.path;
}

/// The forward pass keeps what it would if the first stage's output were the input.
TEST(FrozenLayers, KeepNothingForBackward) {
    Training all(false), frozen(true), behind(true);
    all.step(), frozen.step();
    behind.step([&, x = behind.first_stage()]() mutable { return behind.behind_first_stage(std::move(x)); });
    EXPECT_LT(frozen.held, all.held);
    EXPECT_EQ(frozen.held, behind.held);
}

TEST(FrozenLayers, StayAsTheyWereWhileTheOthersMakeTheSameSteps) {
    Training frozen(true), behind(true);
    for (int i = 0; i < 3; ++i) {
        frozen.step();
        behind.step([&, x = behind.first_stage()]() mutable { return behind.behind_first_stage(std::move(x)); });
    }
    EXPECT_EQ(test::values_of(frozen.parameters), test::values_of(behind.parameters));
    const Training fresh(true);
    for (const Parameter& parameter : frozen.parameters.all()) {
        const bool same =
            parameter.tensor.to_vector<float>() == fresh.parameters.at(parameter.path).tensor.to_vector<float>();
        EXPECT_EQ(same, !parameter.trained) << parameter.path;
    }
}

}  // namespace frozen_layers_test
}  // namespace headroom::nn
