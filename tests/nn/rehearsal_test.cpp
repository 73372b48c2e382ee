// How short a rehearsal may be: what it leaves out would have taken no more memory.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/category.hpp>
#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/nn/drawn_models.hpp>
#include <headroom/tests/support/small_pages.hpp>

namespace headroom::nn {
namespace rehearsal_test {

constexpr std::int64_t kRows = 4, kRest = 3;  ///< samples in a batch, and in the last one of an evaluation

/// The logits or the loss of so many samples.
using Call = std::function<Tensor(std::int64_t rows)>;

Call unet(Parameters& parameters) {
    const auto model = std::make_shared<UNet>(Path(parameters), UNetOptions{.classes = 3, .width = 8});
    return [=, &parameters](std::int64_t rows) {
        const Tensor x = test::pattern(parameters, {rows, 3, 32, 48}, 0).contiguous(MemoryFormat::channels_last);
        const Tensor labels = test::indices(parameters.context(), {rows, 32, 48}, 0, 0, 3);
        return cross_entropy((*model)(x).permute({0, 2, 3, 1}), labels).sum();
    };
}

Call gpt(Parameters& parameters) {
    GptOptions options{.vocabulary = 300, .block = 32, .layers = 3, .heads = 2, .width = 64};
    options.dropout = 0.1;
    const auto model = std::make_shared<Gpt>(Path(parameters), options);
    return [=, &parameters](std::int64_t rows) {
        Context& context = parameters.context();
        return model->loss(test::indices(context, {rows, 32}, 0, 0, 300), test::indices(context, {rows, 32}, 1, 0, 300))
            .sum();
    };
}

Call gru(Parameters& parameters) {
    using Net = test::RecurrentModel<Gru>;
    const RecurrentNetOptions options{.in = 32, .width = 96, .layers = 2, .batch_first = true};
    const auto model = std::make_shared<Net>(Path(parameters), options, 50);
    return [=, &parameters](std::int64_t rows) {
        const Tensor labels = test::indices(parameters.context(), {rows, 20}, 0, 0, 50);
        return cross_entropy((*model)(test::pattern(parameters, {rows, 20, 32}, 0), Tensor()), labels).sum();
    };
}

struct Case {
    const char* name;
    Call (*model)(Parameters&);
    std::optional<Dtype> dtype;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

/// With small pages, so that a few bytes more would reserve more.
std::unique_ptr<Context> make(bool dry) {
    const auto memory = std::make_shared<DeviceMemory>(headroom::test::make_small_pages(), training_memory());
    const ContextOptions options{.threads = 2, .seed = 3, .memory = memory};
    if (!dry) return std::unique_ptr<Context>(new Context(Context::cpu(options)));
    return std::unique_ptr<Context>(new Context(Context::dry(Context::cpu(options).profile())));
}

struct Evaluated {
    MemoryStatistics statistics;
    std::vector<double> losses;
};

/// Equal batches under one guard. With `kept`, their casts are kept.
Evaluated evaluate(const Case& each, bool dry, int batches, bool kept = false) {
    const std::unique_ptr<Context> context = make(dry);
    Parameters parameters(*context);
    const Call call = each.model(parameters);
    Evaluated result;
    {
        const EvaluationScope evaluation(parameters);
        const Autocast autocast(*context, each.dtype);
        std::optional<KeptCasts> casts;
        if (kept) casts.emplace(*context);
        for (int i = 0; i < batches; ++i) result.losses.push_back(call(kRows).item());
    }
    result.statistics = context->memory().statistics();
    return result;
}

class RehearsalOf : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, RehearsalOf,
                         ::testing::Values(Case{"unet", unet, {}}, Case{"unet_bf16", unet, Dtype::bf16},
                                           Case{"unet_f16", unet, Dtype::f16}, Case{"gpt", gpt, {}},
                                           Case{"gpt_bf16", gpt, Dtype::bf16}, Case{"gpt_f16", gpt, Dtype::f16},
                                           Case{"gru", gru, {}}, Case{"gru_bf16", gru, Dtype::bf16}),
                         [](const auto& info) { return info.param.name; });

TEST_P(RehearsalOf, AnEvaluationNeedsOneBatchAndForWhatIsReservedTwo) {
    const Evaluated one = evaluate(GetParam(), true, 1), two = evaluate(GetParam(), true, 2);
    for (const bool dry : {true, false}) {
        for (const int batches : {1, 2, 3}) {
            const Evaluated all = evaluate(GetParam(), dry, batches);
            EXPECT_EQ(all.statistics.peak_allocated, one.statistics.peak_allocated) << batches << " batches";
            EXPECT_EQ(all.statistics.at_peak_by_category, one.statistics.at_peak_by_category);
            EXPECT_EQ(all.statistics.peak_reserved, (batches == 1 ? one : two).statistics.peak_reserved);
        }
    }
}

TEST_P(RehearsalOf, KeptCastsChangeMemoryAloneAndNeedASecondCall) {
    const Evaluated gone = evaluate(GetParam(), false, 3), kept = evaluate(GetParam(), false, 3, true);
    EXPECT_EQ(kept.losses, gone.losses);
    EXPECT_NE(gone.losses[0], 0.0);
    EXPECT_EQ(kept.losses, std::vector<double>(3, gone.losses[0]));
    EXPECT_EQ(kept.statistics.peak_allocated > gone.statistics.peak_allocated, GetParam().dtype.has_value());
    const Evaluated two = evaluate(GetParam(), true, 2, true);
    EXPECT_EQ(two.statistics.peak_allocated, kept.statistics.peak_allocated);
}

/// Casts that were made while a text was drawn.
std::int64_t casts_of(std::int64_t tokens) {
    Context context = Context::dry({.threads = 1});
    Parameters parameters(context);
    const Gpt model(Path(parameters), {.vocabulary = 300, .block = 32, .layers = 3, .heads = 2, .width = 64});
    parameters.materialize();
    context.memory().start_history(100'000);
    const Autocast autocast(context, Dtype::bf16);
    generate(model, {1, 2, 3}, tokens, {});
    const memory::MemorySnapshot snapshot = context.memory().snapshot();
    return std::count_if(snapshot.events.begin(), snapshot.events.end(), [&](const memory::MemoryEvent& event) {
        return event.kind == memory::MemoryEvent::Kind::allocate && snapshot.paths[event.op] == "cast";
    });
}

TEST(RehearsalOfAText, EachWeightIsCastOnceForAllTokens) {
    EXPECT_GT(casts_of(1), 3 * 4);
    EXPECT_EQ(casts_of(8), casts_of(1));
}

struct Training {
    int steps, micro_batches, every, batches;  ///< every: steps between validations, of so many batches and a rest
};

/// All of it, or if it `rehearses`, what docs/memory.md asks of a rehearsal.
MemoryStatistics train(const Case& each, bool dry, const Training& training, bool rehearses = false) {
    const std::unique_ptr<Context> context = make(dry);
    Parameters parameters(*context);
    const Call call = each.model(parameters);
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulatorOptions options{.clip = 1.0};
    if (each.dtype == Dtype::f16) options.scale = optim::LossScale::dynamic();
    optim::GradientAccumulator accumulator(parameters, optimizer, options);
    const auto one = [&](std::int64_t rows) {
        const Autocast autocast(*context, each.dtype);
        return call(rows);
    };
    const auto step = [&] {
        SteadyState recurrence(*context);
        for (std::int64_t left = training.micro_batches; left > 0;) {
            accumulator.accumulate([&] { return Loss(one(kRows), 1.0); });
            --left;
            if (rehearses && left > 1) left -= recurrence.skippable(left - 1);
        }
        accumulator.step(1e-3);
    };
    const auto validate = [&] {
        const EvaluationScope evaluation(parameters);
        for (int i = 0; i < training.batches; ++i) one(kRows).item();
        one(kRest).item();
    };
    SteadyState steps(*context), rounds(*context);
    for (int done = 0; done < training.steps;) {
        ++done;
        step();
        const bool recurs = rehearses && steps.reached();
        if (training.every == 0 && recurs) break;
        if (training.every == 0 || (!recurs && done % training.every != 0)) continue;
        validate();
        if (rehearses && rounds.reached()) break;
    }
    return context->memory().statistics();
}

/// docs/memory.md says so.
TEST_P(RehearsalOf, ATrainingIsRehearsedUntilItsMemoryRecurs) {
    for (const int micro_batches : {1, 2, 5}) {
        for (const int every : {0, 1, 3}) {
            SCOPED_TRACE(::testing::Message() << micro_batches << " micro-batches, validation after " << every);
            const MemoryStatistics rehearsed = train(GetParam(), true, {12, micro_batches, every, 2}, true);
            for (const bool dry : {true, false}) {
                if (!dry && !(micro_batches == 5 && every == 3)) continue;
                const MemoryStatistics all = train(GetParam(), dry, {12, micro_batches, every, 4});
                EXPECT_EQ(all.peak_allocated, rehearsed.peak_allocated);
                EXPECT_EQ(all.peak_reserved, rehearsed.peak_reserved);
            }
        }
    }
}

}  // namespace rehearsal_test
}  // namespace headroom::nn
