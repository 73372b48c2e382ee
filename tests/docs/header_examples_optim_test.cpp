// The examples of optim and plan headers: each is compiled as the header shows it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/op_timer.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/clip.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/loss_scale.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/optim/optimizer.hpp>
#include <headroom/optim/schedule.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/optim/step_result.hpp>
#include <headroom/optim/summed_shares.hpp>
#include <headroom/optim/update_rule.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/plan/largest.hpp>
#include <headroom/plan/plan.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/plan/policy_of.hpp>

namespace header_examples {
namespace header_examples_optim_test {

using namespace headroom;

struct Batch {
    Tensor tokens, targets;
};
struct Loader {
    Batch batch;
    const Batch* next() { return &batch; }
};

struct Model {
    Tensor weight;
    Tensor operator()(Tensor x) const { return x * weight; }
    Loss loss(Tensor tokens, Tensor targets) const { return cross_entropy(tokens * weight, targets); }
    Loss loss(const Batch& batch) const { return loss(batch.tokens, batch.targets); }
};

double accuracy(const Model&, const Tensor&) { return 1; }
void train(Context&) {}
void steps(Context&, const plan::MicroBatching&, int) {}
double timed(const std::function<void()>& step) { return step(), 1.0; }

void adamw_example(Parameters& parameters, const Model& model, Tensor tokens, Tensor targets) {
    optim::AdamW optimizer(parameters, {.beta2 = 0.99, .weight_decay = 0.1});
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    accumulator.accumulate([&] { return model.loss(tokens, targets); });
    accumulator.step(1e-3);
}

void clip_example(Parameters& parameters, optim::Optimizer& optimizer, double multiplier) {
    const double norm = optim::gradient_norm(parameters) * multiplier;
    optimizer.step(1e-3, multiplier * optim::clip_factor(norm, 1.0));
}

void gradient_accumulator_example(Parameters& parameters, optim::Optimizer& optimizer, const Model& model,
                                  Loader& loader) {
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    for (int i = 0; i < 8; ++i) {
        accumulator.accumulate([&] {
            const Batch& batch = *loader.next();
            return model.loss(batch.tokens, batch.targets);
        });
    }
    accumulator.step(1e-3);
    fmt::print("{}\n", accumulator.result().loss);
    accumulator.begin_step({.micro_batches = 8, .learning_rate = 1e-3});
    while (accumulator.wants_more()) accumulator.accumulate([&] { return model.loss(*loader.next()); });
    accumulator.step();
}

void loss_scale_example(Parameters& parameters, optim::Optimizer& optimizer) {
    optim::GradientAccumulator accumulator(parameters, optimizer, {.scale = optim::LossScale::dynamic()});
    fmt::print("{}\n", accumulator.loss_scale().value());
}

void moving_average_example(Context& context, Parameters& parameters, optim::Optimizer& optimizer,
                            optim::GradientAccumulator& accumulator, const Model& model, Tensor points,
                            const std::string& path) {
    optim::MovingAverage average(parameters, {.decay = 0.999});
    accumulator.step(1e-3);
    average.update();
    const double share = average.evaluate([&] { return accuracy(model, points); });
    files::save_checkpoint(path, context, {parameters, optimizer, accumulator, average});
}

void optimizer_example(Parameters& parameters, const Model& model, Tensor tokens, Tensor targets) {
    const optim::ParameterGroup head{.pattern = "head.**", .learning_rate_factor = 10};
    const optim::ParameterGroup tokens_group{.pattern = "tokens.**", .rule = optim::sgd_rule({.momentum = 0.9})};
    optim::AdamW optimizer(parameters, {.weight_decay = 0.1, .groups = {head, tokens_group}});
    backward(model.loss(tokens, targets).mean());
    parameters.fill_unreached();
    optimizer.step(1e-3);
    parameters.zero_grad();
}

std::int64_t summed_shares_example(Parameters& parameters, int ranks, std::size_t rank) {
    std::int64_t elements = 0;
    for (const GradientSegment& segment : parameters.segments())
        elements += optim::summed_shares(parameters, segment, ranks)[rank].count;
    return elements;
}

struct Signs final : optim::UpdateRule {  // moves each element by the learning rate
    Signs() : UpdateRule("signs") {}
    void update(Exec& exec, const Range& range, const View& multiplier) const override {}
};
void update_rule_example(Parameters& parameters) {  // not shown
    optim::Optimizer optimizer(parameters, std::make_shared<Signs>());
}

void schedule_example(optim::GradientAccumulator& accumulator) {
    const optim::Schedule rate{.decay = optim::Decay::cosine, .warmup_steps = 100, .decay_steps = 2000};
    for (std::int64_t step = 0; step < 2000; ++step) {
        // ...
        accumulator.step(rate(step));
    }
}

void sgd_example(Parameters& parameters, const Model& model, Tensor images, Tensor labels) {
    optim::Sgd optimizer(parameters, {.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
    optim::GradientAccumulator accumulator(parameters, optimizer);
    accumulator.accumulate([&] { return cross_entropy(model(images), labels); });
    accumulator.step(0.1);
}

void step_result_example(optim::GradientAccumulator& accumulator) {
    const optim::StepResult result = accumulator.result();
    if (result.skipped) fmt::print("not finite: nothing was updated\n");
}

void costs_example(Context& context, const RecordedProgram& program) {
    plan::Costs costs = plan::Costs::assumed(context.profile());
    OpTimer timer(context);
    const double step_seconds = timed([&] { train(context); });
    costs.measure({{program, 1, {{step_seconds, timer.take()}}}});
    plan::write_costs("costs.json", costs, plan::Machine::of(context.profile()));
}

void largest_example(const Profile& profile, std::function<void(Context&, const plan::MicroBatching&)> run) {
    const auto of_batch = [&](std::int64_t batch) { return plan::Workload{.run = run, .division = {batch}}; };
    if (const auto found = plan::largest(profile, 8'000'000'000, of_batch, 1, 4096))
        fmt::print("{} samples: {}\n", found->size, found->plan.to_string());
}

void plan_example(Context& context, plan::Plan plan) {
    {  // not shown
        plan::write_plan("gpt.plan.json", plan);
        const plan::Plan plan = plan::read_plan("gpt.plan.json");
        context.policy(plan.policy);
    }
}

void planner_example(Context& context) {
    const plan::Workload workload{
        .run = [](Context& dry, const plan::MicroBatching& division) { steps(dry, division, 2); },
        .division = {.batch = 32}};
    plan::Planner planner(context.profile(), workload);
    const plan::Plan plan = planner.fit(6'000'000'000);
    context.policy(plan.policy);
}

void policy_of_example(Context& context, const RecordedProgram& program, std::vector<Answer> answers) {
    context.policy(plan::policy_of(program, answers));
}

TEST(HeaderExamples, OfOptimAndPlanRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    const Model model{parameters.create("head.weight", {3}, nn::init::ones())};
    parameters.create("tokens.weight", {3}, nn::init::ones());
    const Tensor tokens = ones(context, {2, 3}), targets = arange(context, 0, 2);
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    Loader loader{{tokens, targets}};
    adamw_example(parameters, model, tokens, targets);
    gradient_accumulator_example(parameters, optimizer, model, loader);
    loss_scale_example(parameters, optimizer);
    optimizer_example(parameters, model, tokens, targets);
    sgd_example(parameters, model, tokens, targets);
    EXPECT_EQ(summed_shares_example(parameters, 2, 0) + summed_shares_example(parameters, 2, 1),
              summed_shares_example(parameters, 1, 0));
    EXPECT_NE(model.weight.to_vector<float>(), std::vector<float>(3, 1.0f));
}

}  // namespace header_examples_optim_test
}  // namespace header_examples
