// Steps that are announced before their first micro-batch, and what is known during their last backward pass.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace announced_step_test {

using test::Regression;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// A small GPT-2, whose embedding is its head as well, in bf16, with layers that are computed again.
struct Gpt {
    static constexpr std::int64_t kBlock = 5, kVocabulary = 13, kRows = 2;

    Loss loss(std::int64_t micro_batch) {
        std::vector<std::int32_t> ids, targets;
        for (std::int64_t i = 0; i < kRows * kBlock; ++i) {
            ids.push_back(static_cast<std::int32_t>((i * i + 3 * micro_batch) % kVocabulary));
            targets.push_back(static_cast<std::int32_t>((i * i + 5 * micro_batch + 1) % kVocabulary));
        }
        const Autocast half(context, Dtype::bf16);
        return model.loss(context.from_host(ids, {kRows, kBlock}), context.from_host(targets, {kRows, kBlock}));
    }

    Context context = Context::cpu({.threads = 2, .seed = 3});
    Parameters parameters{context};
    nn::Gpt model{nn::Path(parameters),
                  {.vocabulary = kVocabulary, .block = kBlock, .layers = 3, .heads = 2, .width = 16, .dropout = 0.1}};
    AdamW optimizer{parameters};
    GradientAccumulator accumulator{parameters, optimizer, {.keep_gradients = true}};
};

std::vector<float> elements(const Array& array) {
    const auto* first = array.view().as<const float>();
    return {first, first + array.numel()};
}

TEST(AnnouncedStep, HasTheBitsOfOneThatWasNot) {
    const auto train = [](bool announced) {
        Gpt gpt;
        for (int step = 0; step < 3; ++step) {
            if (announced) gpt.accumulator.begin_step({.micro_batches = 3, .learning_rate = 0.01});
            for (int i = 0; i < 3; ++i) gpt.accumulator.accumulate([&] { return gpt.loss(i); });
            announced ? gpt.accumulator.step() : gpt.accumulator.step(0.01);
        }
        return test::values_of(gpt.parameters);
    };
    EXPECT_EQ(train(true), train(false));
}

TEST(AnnouncedStep, NamesEachSegmentOnceWhenItsGradientsAreComplete) {
    Gpt gpt;
    gpt.context.policy("blocks.*", recompute_all());
    std::map<std::int64_t, std::vector<float>> seen;
    std::vector<std::int64_t> order;
    gpt.accumulator.on_complete([&](const GradientSegment& segment) {
        EXPECT_EQ(gpt.accumulator.micro_batches(), 2) << "the third one is the last";
        EXPECT_TRUE(seen.emplace(segment.offset, elements(segment.gradients)).second) << "twice";
        order.push_back(segment.offset);
    });
    for (int step = 0; step < 2; ++step) {
        seen.clear();
        order.clear();
        gpt.accumulator.begin_step({.micro_batches = 3, .learning_rate = 0.01});
        for (int i = 0; i < 3; ++i) gpt.accumulator.accumulate([&] { return gpt.loss(i); });
        ASSERT_GT(gpt.parameters.segments().size(), 8u);
        ASSERT_EQ(seen.size(), gpt.parameters.segments().size());
        for (const GradientSegment& segment : gpt.parameters.segments()) {
            EXPECT_EQ(seen.at(segment.offset), elements(segment.gradients)) << "something was added later";
        }
        EXPECT_NE(order.front(), order.back());
        EXPECT_EQ(order.front(), std::min_element(seen.begin(), seen.end())->first) << "the last layer's come first";
        gpt.accumulator.step();
    }
}

TEST(AnnouncedStep, NamesNothingWithoutAnAnnouncementOrWithoutAListener) {
    Gpt gpt;
    int calls = 0;
    gpt.accumulator.on_complete([&](const GradientSegment&) { ++calls; });
    gpt.accumulator.accumulate([&] { return gpt.loss(0); });
    gpt.accumulator.step(0.01);
    EXPECT_EQ(calls, 0);
    gpt.accumulator.on_complete({});
    gpt.accumulator.begin_step({.micro_batches = 1, .learning_rate = 0.01});
    gpt.accumulator.accumulate([&] { return gpt.loss(0); });
    gpt.accumulator.step();
    EXPECT_EQ(calls, 0);
}

TEST(AnnouncedStep, LeavesOutSegmentsThatNothingReached) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    Sgd optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    std::vector<std::string> named;
    accumulator.on_complete([&](const GradientSegment& segment) {
        for (const std::size_t i : segment.parameters) named.push_back(model.parameters.all()[i].path);
    });
    accumulator.begin_step({.micro_batches = 1, .learning_rate = 0.1});
    accumulator.accumulate([&] { return Loss(sum(mul(model.down_bias, model.down_bias)), 1); });
    EXPECT_THAT(named, ::testing::ElementsAre("down.bias"));
    accumulator.step();
}

TEST(Segments, AreCompleteAfterTheLastUseOfAParameter) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    std::vector<float> seen;
    int calls = 0;
    model.parameters.on_segment_complete([&](const GradientSegment& segment) {
        ++calls;
        seen = elements(segment.gradients);
    });
    const Tensor first = sum(mul(model.up, model.up)), second = sum(model.up);
    backward(first + second);
    EXPECT_EQ(calls, 1);
    for (const GradientSegment& segment : model.parameters.segments()) {
        if (segment.gradients.defined()) {
            EXPECT_EQ(seen, elements(segment.gradients));
        }
    }
}

TEST(Segments, AreNotCompleteWhileAParameterHasNoGradient) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    std::vector<Tensor> all;
    for (int i = 0; i < 128; ++i) all.push_back(parameters.create("p" + std::to_string(i), {16}, test::fill_normally));
    parameters.materialize();
    const std::vector<std::size_t> together = parameters.segments().front().parameters;
    ASSERT_GT(together.size(), 1u);
    int calls = 0;
    parameters.on_segment_complete([&](const GradientSegment&) { ++calls; });
    Tensor loss = sum(mul(all[together[0]], all[together[0]]));
    backward(loss);
    EXPECT_EQ(calls, 0);
    loss = sum(all[together[0]]);
    for (std::size_t i = 1; i < together.size(); ++i) loss = loss + sum(all[together[i]]);
    backward(loss);
    EXPECT_EQ(calls, 1);
}

TEST(AnnouncedStep, FollowsABackwardThatFailed) {
    Gpt gpt;
    int calls = 0;
    bool fail = true;
    gpt.accumulator.on_complete([&](const GradientSegment&) {
        if (++calls == 3 && fail) throw Error("a listener's own");
    });
    gpt.accumulator.begin_step({.micro_batches = 1, .learning_rate = 0.01});
    EXPECT_THAT([&] { gpt.accumulator.accumulate([&] { return gpt.loss(0); }); },
                ThrowsMessage<Error>(HasSubstr("a listener's own")));
    gpt.accumulator.reset();
    fail = false;
    calls = 0;
    gpt.accumulator.begin_step({.micro_batches = 1, .learning_rate = 0.01});
    gpt.accumulator.accumulate([&] { return gpt.loss(0); });
    EXPECT_EQ(calls, static_cast<int>(gpt.parameters.segments().size()));
    gpt.accumulator.step();
}

/// Segments have versions of their own: an update of one does not make the others' saved parameters stale.
TEST(AnnouncedStep, MayUpdateEachSegmentDuringBackward) {
    Gpt whole, apart;
    const auto gradients = [](Gpt& gpt, int step) {
        gpt.parameters.zero_grad();
        backward(gpt.loss(step).mean());
    };
    const Array one = apart.context.exec().empty({}, Dtype::f64);
    apart.context.exec().launch([&](auto& stream) { kernels::fill(stream, 1.0, one.view()); });
    apart.parameters.on_segment_complete(
        [&](const GradientSegment& segment) { apart.optimizer.update_segment(segment, one); });
    for (int step = 0; step < 3; ++step) {
        gradients(whole, step);
        whole.optimizer.step(0.01);

        apart.optimizer.begin_step(0.01);
        gradients(apart, step);
        apart.optimizer.count_step(one);
        apart.optimizer.end_step();
        EXPECT_EQ(test::values_of(whole.parameters), test::values_of(apart.parameters)) << "step " << step;
    }
    EXPECT_EQ(apart.optimizer.steps(), 3);
}

TEST(Segments, HaveVersionsOfTheirOwn) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    const GradientSegment* changed = nullptr;
    for (const GradientSegment& segment : model.parameters.segments()) {
        if (model.parameters.all()[segment.parameters.front()].path == "down.weight") changed = &segment;
    }
    ASSERT_NE(changed, nullptr);
    ASSERT_GT(model.parameters.segments().size(), 1u);
    const auto loss_of = [](const Tensor& parameter) { return sum(mul(parameter, parameter)); };
    const Tensor other = loss_of(model.up);
    model.parameters.mark_changed(*changed);
    backward(other);
    const Tensor stale = loss_of(model.down);
    model.parameters.mark_changed(*changed);
    EXPECT_THAT([&] { backward(stale); }, ThrowsMessage<Error>(HasSubstr("was changed after forward used it")));
    const Tensor set = loss_of(model.down), beside = loss_of(model.up);
    model.parameters.set("down.weight", std::vector<float>(static_cast<std::size_t>(model.down.numel()), 1.0f));
    EXPECT_THAT([&] { backward(set); }, ThrowsMessage<Error>(HasSubstr("was changed after forward used it")));
    backward(loss_of(model.up));
    const Tensor all = loss_of(model.up);
    model.parameters.mark_changed();
    EXPECT_THAT([&] { backward(all); }, ThrowsMessage<Error>(HasSubstr("was changed after forward used it")));
}

/// Both operands lie in one array: each saved one has the version of its own parameter.
TEST(Segments, AreToldApartAmongTheInputsOfOneOp) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    for (const char* path : {"up.weight", "down.weight"}) {
        const Tensor product = sum(matmul(model.down, model.up));
        for (const GradientSegment& segment : model.parameters.segments()) {
            if (model.parameters.all()[segment.parameters.front()].path == path) model.parameters.mark_changed(segment);
        }
        EXPECT_THAT([&] { backward(product); }, ThrowsMessage<Error>(HasSubstr("was changed after forward used it")))
            << path;
    }
}

TEST(Segments, AreChangedByAnUpdateOfThem) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    Sgd optimizer(model.parameters);
    const Array one = context.exec().empty({}, Dtype::f64);
    context.exec().launch([&](auto& stream) { kernels::fill(stream, 1.0, one.view()); });
    backward(sum(mul(model.up, model.up)));
    const Tensor loss = sum(mul(model.up, model.up));
    optimizer.begin_step(0.1);
    for (const GradientSegment& segment : model.parameters.segments()) {
        if (segment.gradients.defined()) optimizer.update_segment(segment, one);
    }
    EXPECT_THAT([&] { backward(loss); }, ThrowsMessage<Error>(HasSubstr("was changed after forward used it")));
}

TEST(GraphedWork, IsCalledWithItsInputsWhereThereAreNoGraphs) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    Sgd optimizer(model.parameters);
    GradientAccumulator accumulator(model.parameters, optimizer);
    const auto ones = [&] { return context.from_host(std::vector<float>(3, 1.0f), {3}); };
    int calls = 0;
    const GraphedWork two = accumulator.graph<2>([&](const Tensor& a, const Tensor& b) {
        ++calls;
        return Loss(sum(mul(model.down_bias, mul(a, b))), 1);
    });
    const GraphedWork any = accumulator.graph([&](const std::vector<Tensor>& given) {
        calls += static_cast<int>(given.size());
        return Loss(sum(mul(model.down_bias, given.at(0))), 1);
    });
    accumulator.accumulate(two, std::array{ones(), ones()});
    accumulator.accumulate(any, std::vector{ones(), ones(), ones()});
    EXPECT_EQ(calls, 1 + 3);
    EXPECT_THAT([&] { accumulator.accumulate(two, std::array{ones()}); },
                ThrowsMessage<Error>(HasSubstr("takes 2 inputs, got 1")));
    accumulator.reset();
    EXPECT_EQ(accumulator.graph_refusal(), "");
}

TEST(AnnouncedStep, RefusesWhatDoesNotFit) {
    Gpt gpt;
    GradientAccumulator& accumulator = gpt.accumulator;
    const auto accumulate = [&] { accumulator.accumulate([&] { return gpt.loss(0); }); };
    EXPECT_THAT([&] { accumulator.step(); }, ThrowsMessage<Error>(HasSubstr("begin_step was not called")));
    EXPECT_THAT([&] { accumulator.begin_step({.micro_batches = 0}); }, ThrowsMessage<Error>(HasSubstr("at least 1")));
    EXPECT_THAT([&] { accumulator.begin_step({.learning_rate = -1}); },
                ThrowsMessage<Error>(HasSubstr("learning rate must be finite and not negative")));
    accumulator.begin_step({.micro_batches = 2, .learning_rate = 0.01});
    EXPECT_THAT([&] { accumulator.step(0.01); }, ThrowsMessage<Error>(HasSubstr("call step()")));
    EXPECT_THAT([&] { accumulator.step(); }, ThrowsMessage<Error>(HasSubstr("step has no gradients")));
    accumulate();
    EXPECT_THAT([&] { accumulator.step(); },
                ThrowsMessage<Error>(HasSubstr("announced 2 micro-batches, but 1 were accumulated")));
    EXPECT_THAT([&] { accumulator.begin_step({}); }, ThrowsMessage<Error>(HasSubstr("between the micro-batches")));
    accumulate();
    EXPECT_THAT(accumulate, ThrowsMessage<Error>(HasSubstr("announced 2 micro-batches and all were accumulated")));
    accumulator.step();
    accumulate();  // a step that is not announced
    accumulator.step(0.01);
    accumulator.begin_step({.micro_batches = 2, .learning_rate = 0.01});
    accumulate();
    accumulator.reset();  // forgets the announcement
    accumulate();
    accumulator.step(0.01);
}

}  // namespace announced_step_test
}  // namespace headroom::optim
