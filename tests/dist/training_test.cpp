// The same training by one and by several ranks, as threads: what the micro-batches are, what is drawn in them, and the
// sums of their losses have the same bits; gradients differ by the rounding of sums in another order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/data/tokens.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom {
namespace training_test {

using dist::run_ranks;

struct Outcome {
    std::vector<double> losses, norms;
    std::vector<double> values, gradients;
    std::size_t peak = 0, reserved = 0;
    std::uint64_t counter = 0;
};

/// Three steps of a GPT with dropout on noise; f64, so that the order of sums is all that differs.
Outcome train(Context& context, std::int64_t micro_batches, std::uint64_t seed) {
    Group* const group = context.group();
    std::vector<std::int32_t> text(400);
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>((i * i + seed % 97 + i / 7) % 11);
    const data::TextWindows windows(data::TokenView(text, 11), 8, data::WindowStart::every_token);
    data::DataLoader loader(windows, data::Sampler::shuffled(windows.size(), 3, seed));
    if (group) loader.divide({group->rank(), group->ranks(), micro_batches});
    Parameters parameters(context, {.dtype = Dtype::f64});
    const nn::Gpt model(parameters,
                        {.vocabulary = 11, .block = 8, .layers = 2, .heads = 2, .width = 16, .dropout = 0.2});
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0, .keep_gradients = true});
    Outcome outcome;
    for (int step = 0; step < 3; ++step) {
        const auto micro_batch = [&] {
            const auto& [rows, length, inputs, targets] = *loader.next();
            return model.loss(context.from_host(inputs, {rows, length}), context.from_host(targets, {rows, length}));
        };
        accumulator.begin_step({.micro_batches = micro_batches, .learning_rate = 0.01});
        while (accumulator.wants_more()) accumulator.accumulate(micro_batch);
        accumulator.step();
        const optim::StepResult result = accumulator.result();
        outcome.losses.push_back(result.loss);
        outcome.norms.push_back(result.gradient_norm);
    }
    outcome.peak = context.memory().statistics().peak_allocated;
    outcome.reserved = context.memory().statistics().peak_reserved;
    outcome.counter = context.random_counter();
    if (context.dry()) return outcome;
    for (const Parameter& parameter : parameters.all()) {
        const std::vector<double> values = parameter.tensor.to_vector<double>();
        outcome.values.insert(outcome.values.end(), values.begin(), values.end());
        const std::vector<double> gradients = parameter.tensor.grad().to_vector<double>();
        outcome.gradients.insert(outcome.gradients.end(), gradients.begin(), gradients.end());
    }
    return outcome;
}

std::vector<Outcome> train_ranks(int ranks, std::int64_t micro_batches, std::uint64_t seed) {
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .seed = seed, .group = group});
        outcomes[static_cast<std::size_t>(group->rank())] = train(context, micro_batches, seed);
    });
    return outcomes;
}

TEST(SeveralRanks, TrainAsOneDoes) {
    const auto seed = static_cast<std::uint64_t>(test::random_seed());
    for (const std::int64_t micro_batches : {8, 5}) {
        Context context = Context::cpu({.threads = 1, .seed = seed});
        const Outcome alone = train(context, micro_batches, seed);
        for (const int ranks : {2, 3, 4}) {
            const std::vector<Outcome> all = train_ranks(ranks, micro_batches, seed);
            SCOPED_TRACE(testing::Message() << ranks << " ranks, " << micro_batches << " micro-batches");
            EXPECT_EQ(all[0].losses[0], alone.losses[0]);  // summed in the order of micro-batches
            EXPECT_EQ(all[0].counter, alone.counter);
            for (std::size_t step = 0; step < 3; ++step) {
                EXPECT_NEAR(all[0].losses[step], alone.losses[step], 1e-10);
                EXPECT_NEAR(all[0].norms[step], alone.norms[step], 1e-10);
            }
            ASSERT_EQ(all[0].values.size(), alone.values.size());
            for (std::size_t i = 0; i < alone.values.size(); ++i)
                ASSERT_NEAR(all[0].values[i], alone.values[i], 1e-8) << i;
            // As they are kept: times the seed of the step, which is micro-batch 0's.
            ASSERT_EQ(all[0].gradients.size(), alone.gradients.size());
            for (std::size_t i = 0; i < alone.gradients.size(); ++i)
                ASSERT_NEAR(all[0].gradients[i], alone.gradients[i], 1e-8) << i;
            for (const Outcome& other : all) {
                EXPECT_EQ(other.values, all[0].values);
                EXPECT_EQ(other.losses, all[0].losses);
                EXPECT_EQ(other.counter, all[0].counter);
            }
            EXPECT_EQ(train_ranks(ranks, micro_batches, seed)[0].values, all[0].values);
        }
    }
}

TEST(SeveralRanks, TakeTheMemoryThatIsRehearsed) {
    for (const int ranks : {2, 3}) {
        const std::vector<Outcome> all = train_ranks(ranks, 8, 1);
        for (int rank = 0; rank < ranks; ++rank) {
            Context here = Context::cpu({.threads = 1, .seed = 1});
            Profile profile = here.profile();
            profile.rank = rank;
            profile.ranks = ranks;
            Context dry = Context::dry(profile);
            const Outcome rehearsed = train(dry, 8, 1);
            EXPECT_EQ(rehearsed.peak, all[static_cast<std::size_t>(rank)].peak);
            EXPECT_EQ(rehearsed.reserved, all[static_cast<std::size_t>(rank)].reserved);
        }
    }
}

/// After two steps of four micro-batches: running mean, running variance, and the number of batches.
std::vector<std::vector<double>> running_statistics(Context& context) {
    Group* const group = context.group();
    Parameters parameters(context, {.dtype = Dtype::f64});
    const nn::Path root(parameters);
    const nn::Conv2d conv(root / "conv", 2, 3, 3);
    const nn::BatchNorm2d norm(root / "norm", 3);
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    std::int64_t number = group ? group->rank() : 0;
    for (int step = 0; step < 2; ++step) {
        // No learning: the moments have the same bits in all steps, whoever computes them.
        accumulator.begin_step({.micro_batches = 4, .learning_rate = 0});
        for (; accumulator.wants_more(); number += group ? group->ranks() : 1) {
            const std::int64_t images = 1 + number % 3;  // each its own correction
            std::vector<double> x(static_cast<std::size_t>(images * 2 * 25));
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i * 7 + 31 * number));
            accumulator.accumulate([&] { return Loss(sum(norm(conv(context.from_host(x, {images, 2, 5, 5})))), 1.0); });
        }
        accumulator.step();
    }
    return {norm.running_mean.to_vector<double>(),
            norm.running_var.to_vector<double>(),
            {static_cast<double>(norm.num_batches_tracked.to_vector<std::int64_t>()[0])}};
}

TEST(SeveralRanks, RunningStatisticsTakeInAllMicroBatchesInOrder) {
    Context context = Context::cpu({.threads = 1, .seed = 5});
    const auto alone = running_statistics(context);
    EXPECT_EQ(alone[2][0], 8);
    for (const int ranks : {2, 4}) {
        run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
            Context rank = Context::cpu({.threads = 1, .seed = 5, .group = group});
            EXPECT_EQ(running_statistics(rank), alone) << ranks << " ranks";
        });
    }
}

TEST(SeveralRanks, AnnounceTheirSteps) {
    run_ranks(2, [](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .group = group});
        Parameters parameters(context);
        const Tensor w = parameters.create("w", {2}, nn::init::ones());
        optim::AdamW optimizer(parameters);
        optim::GradientAccumulator accumulator(parameters, optimizer);
        const auto work = [&] { return Loss(sum(w), 1.0); };
        EXPECT_THAT([&] { accumulator.accumulate(work); },
                    testing::ThrowsMessage<Error>("accumulator: with several ranks, call begin_step before the first "
                                                  "micro-batch of a step"));
        EXPECT_THAT([&] { accumulator.begin_step({.micro_batches = 1}); },
                    testing::ThrowsMessage<Error>("accumulator: a step needs at least 2 micro-batches, one for each of "
                                                  "2 ranks, got 1"));
        EXPECT_FALSE(accumulator.wants_more());
        accumulator.begin_step({.micro_batches = 3, .learning_rate = 0.1});
        accumulator.accumulate(work);
        EXPECT_EQ(accumulator.wants_more(), group->rank() == 0);
        if (group->rank() == 0) accumulator.accumulate(work);
        EXPECT_THROW(accumulator.accumulate(work), Error);
        accumulator.step();
        EXPECT_EQ(accumulator.result().loss, 2.0);
        EXPECT_EQ(accumulator.result().terms, 3.0);
        EXPECT_EQ(context.random_counter(), 3u);
        // What is dropped is counted by nobody.
        accumulator.begin_step({.micro_batches = 2, .learning_rate = 0.1});
        accumulator.accumulate(work);
        accumulator.reset();
        EXPECT_EQ(context.random_counter(), 3u);
        // By itself an optimizer would go by the gradients of one rank.
        parameters.fill_unreached();
        EXPECT_THAT([&] { optimizer.step(0.1); },
                    testing::ThrowsMessage<Error>(
                        "adamw: with 2 ranks the gradients must be exchanged before a step; use GradientAccumulator"));
    });
}

}  // namespace training_test
}  // namespace headroom
