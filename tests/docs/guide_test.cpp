// The code that docs/guide.md shows, in its order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/format.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/optim/schedule.hpp>

#include "points.hpp"

namespace headroom {
namespace guide_test {

using Points = data::MemoryDataset<std::int32_t>;

TEST(Guide, FirstProgram) {
    Context context = Context::cpu({.threads = 2, .seed = 1});
    Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
    Tensor loss = sum(square(x.transpose(0, 1)));
    backward(loss);
    fmt::print("{}\n{}\n", loss.item(), x.grad());

    EXPECT_EQ(loss.item(), 91);
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST(Guide, Parameters) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    Classifier model(parameters);
    for (const Parameter& parameter : parameters.all()) {
        fmt::print("{} {}\n", parameter.path, parameter.tensor.shape());
    }
    parameters.freeze("hidden.**");

    EXPECT_EQ(parameters.all().size(), 4u);
    EXPECT_EQ(parameters.all()[0].path, "hidden.weight");
    EXPECT_FALSE(parameters.find("hidden.bias")->trained);
    EXPECT_TRUE(parameters.find("out.bias")->trained);
}

TEST(Guide, OneParameter) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    Classifier model{nn::Path(parameters)};
    const std::vector<float> values = parameters.at("out.bias").tensor.to_vector<float>();
    parameters.set("out.bias", std::vector<float>{0.5f, -0.5f});

    EXPECT_EQ(values.size(), 2u);
    EXPECT_EQ(model.out.bias.to_vector<float>(), (std::vector<float>{0.5f, -0.5f}));
}

Loss loss_of(const Classifier& model, const Points::Batch& batch) {
    Context& context = model.context();
    const Tensor logits = model(context.from_host(batch.features, {batch.rows, 2}));
    return cross_entropy(logits, context.from_host(batch.targets, {batch.rows}));
}

double accuracy(const Classifier& model, const Points& points) {
    Context& context = model.context();
    const EvaluationScope evaluation(model.parameters());
    double right = 0;
    data::DataLoader<Points> loader(points, data::Sampler::sequential(points.size(), 64), {.epochs = 1});
    while (const Points::Batch* batch = loader.next()) {
        const Tensor logits = model(context.from_host(batch->features, {batch->rows, 2}));
        right += sum(argmax(logits) == context.from_host(batch->targets, {batch->rows})).item();
    }
    return right / static_cast<double>(points.size());
}

TEST(Guide, Training) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Classifier model(parameters);
    const Points points = circle_points(24);
    data::DataLoader loader(points, data::Sampler::shuffled(points.size(), /*batch=*/32, /*seed=*/1), {.workers = 2});
    optim::AdamW optimizer(parameters, {.weight_decay = 0.01});
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    const optim::Schedule rate{.decay = optim::Decay::cosine, .peak = 2e-2, .warmup_steps = 20, .decay_steps = 400};
    for (int step = 0; step < 400;) {
        const Points::Batch* batch = loader.next();
        if (!batch) continue;  // an epoch has ended
        accumulator.accumulate([&] { return loss_of(model, *batch); });
        accumulator.step(rate(step++));
        if (step % 50 == 0 && accumulator.result().diverged) throw Error("the loss is not finite; try a lower rate");
    }

    EXPECT_GT(accuracy(model, points), 0.9);
}

Loss fed_loss_of(data::Feed& feed, const Classifier& model, const Points::Batch& batch) {
    const auto [x, classes] = feed.upload({{batch.features, {batch.rows, 2}}, {batch.targets, {batch.rows}}});
    return cross_entropy(model(x), classes);
}

optim::GraphedWork micro_batch(optim::GradientAccumulator& accumulator, const Classifier& model) {
    return accumulator.graph<2>(
        [&model](const Tensor& x, const Tensor& classes) { return cross_entropy(model(x), classes); });
}

void accumulate_fed(optim::GradientAccumulator& accumulator, const optim::GraphedWork& work, data::Feed& feed,
                    const Points::Batch& batch) {
    accumulator.accumulate(work, feed.upload({{batch.features, {batch.rows, 2}}, {batch.targets, {batch.rows}}}));
}

TEST(Guide, Losses) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Classifier model(parameters);
    parameters.train(false);
    const Points points = circle_points(8);
    Points::Batch batch;
    points.read(std::vector<std::int64_t>{3, 1, 4}, batch);
    const Loss loss = loss_of(model, batch);
    backward(loss.mean());

    EXPECT_EQ(loss.terms(), 3);
    EXPECT_TRUE(parameters.find("out.bias")->tensor.grad().defined());
}

/// Mean relative error.
Loss relative_loss(const Tensor& prediction, const Tensor& target) {
    return {sum(abs(prediction / target - 1.0)), static_cast<double>(prediction.numel())};
}

/// Only positions where the mask is set count. The host does not know how many those are, and does not wait for it.
Loss masked_l1_loss(const Tensor& prediction, const Tensor& target, const Tensor& mask) {
    return {sum(abs(prediction - target) * mask), sum(mask)};
}

/// Distillation: the loss by the true classes, and the distance from a teacher's logits.
Loss distilled_loss(const Tensor& logits, const Tensor& targets, const Tensor& teacher) {
    const Loss hard = cross_entropy(logits, targets);
    const Loss soft = kl_div(log_softmax(logits), log_softmax(teacher), /*log_target=*/true);
    return {hard.sum() * 0.3 + soft.sum() * 0.7, soft.terms()};
}

TEST(Guide, TwoLossesInOne) {
    Context context = Context::cpu({.threads = 1});
    const Tensor logits = context.from_host(std::vector<float>{1, 2, 0, 3}, {2, 2}).requires_grad_();
    const Tensor teacher = context.from_host(std::vector<float>{0, 2, 1, 1}, {2, 2});
    const Tensor targets = context.from_host(std::vector<std::int32_t>{1, 0}, {2});
    const double hard = cross_entropy(logits, targets).mean().item();
    const double soft = kl_div(log_softmax(logits), log_softmax(teacher), true).mean().item();
    const Loss both = distilled_loss(logits, targets, teacher);
    EXPECT_EQ(both.terms(), 2);
    EXPECT_NEAR(both.mean().item(), 0.3 * hard + 0.7 * soft, 1e-6);
}

TEST(Guide, LossesOfOnesOwn) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>{1, 2, 4}, {3}).requires_grad_();
    const Tensor y = context.from_host(std::vector<float>{2, 2, 1}, {3});
    const Tensor mask = context.from_host(std::vector<float>{1, 0, 1}, {3});
    EXPECT_EQ(masked_l1_loss(x, y, mask).mean().item(), 2.0);
    EXPECT_EQ(masked_l1_loss(x, y, mask).terms(), 2);
    const Loss loss = relative_loss(x, y);
    EXPECT_EQ(loss.terms(), 3);
    backward(loss.mean());
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{-1.0f / 3 / 2, 0, 1.0f / 3}));
}

TEST(Guide, ClassWeights) {
    Context context = Context::cpu({.threads = 1});
    const Tensor logits = context.from_host(std::vector<float>{1, 1, 2, 2}, {2, 2});
    const Tensor targets = context.from_host(std::vector<std::int32_t>{0, 1}, {2});
    const Tensor weights = context.from_host(std::vector<float>{0.25f, 1.0f}, {2});  // the first class is frequent
    const Loss weighted = cross_entropy(logits, targets, {.class_weights = weights});
    EXPECT_EQ(weighted.terms(), 1.25);
}

TEST(Guide, MovingAverage) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Classifier model{nn::Path(parameters)};
    const Points points = circle_points(8);
    optim::MovingAverage average(parameters, {.decay = 0.99});
    average.update();
    const double share = average.evaluate([&] { return accuracy(model, points); });
    EXPECT_EQ(share, accuracy(model, points));
}

TEST(Guide, Feed) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Classifier model(parameters);
    parameters.train(false);
    const Points points = circle_points(8);
    Points::Batch batch;
    points.read(std::vector<std::int64_t>{3, 1, 4}, batch);
    data::Feed feed(context);
    EXPECT_EQ(fed_loss_of(feed, model, batch).sum().item(), loss_of(model, batch).sum().item());
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    const double loss = loss_of(model, batch).mean().item();
    accumulate_fed(accumulator, micro_batch(accumulator, model), feed, batch);
    accumulator.step(1e-3);
    EXPECT_FLOAT_EQ(static_cast<float>(accumulator.result().loss), static_cast<float>(loss));
}

TEST(Guide, Accumulation) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Classifier model(parameters);
    const Points points = circle_points(8);
    data::DataLoader loader(points, data::Sampler::sequential(points.size(), 10), {.epochs = 1});
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    while (const Points::Batch* batch = loader.next()) {
        accumulator.accumulate([&] { return loss_of(model, *batch); });  // six batches of 10, one of 4
    }
    accumulator.step(1e-3);
    const optim::StepResult result = accumulator.result();

    EXPECT_EQ(result.terms, 64);
    EXPECT_EQ(optimizer.steps(), 1);
}

TEST(Guide, MixedPrecision) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    Classifier model(parameters);
    const Points points = circle_points(8);
    data::DataLoader loader(points, data::Sampler::shuffled(points.size(), 32, 1));
    const Points::Batch& batch = *loader.next();
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer, {.scale = optim::LossScale::dynamic()});
    accumulator.accumulate([&] {
        const Autocast autocast(context, Dtype::f16);
        return loss_of(model, batch);
    });
    accumulator.step(1e-3);
    const optim::StepResult result = accumulator.result();

    EXPECT_TRUE(result.finite);
    EXPECT_EQ(accumulator.loss_scale().value(), 65536);
}

}  // namespace guide_test
}  // namespace headroom
