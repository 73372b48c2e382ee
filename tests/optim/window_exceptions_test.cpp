#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/optim/window.hpp>
#include <headroom/tests/optim/regression.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom {
namespace {

using test::Regression;

/// Two micro-batches per window; every callable draws random numbers and may fail.
struct Trainer {
    MicroBatch micro_batch(std::int64_t row, toy::Faults faults = {}) {
        faults_ = faults;
        MicroBatch batch = model.micro_batch(row, 16);
        batch.loss_sum = toy::fragile(toy::noisy(std::move(batch.loss_sum)), faults_);
        return batch;
    }
    std::size_t allocated() { return context.memory().statistics().allocated; }
    void undisturbed_window() {
        window.accumulate([&] { return micro_batch(0); });
        window.accumulate([&] { return micro_batch(16); });
        window.step(0.01);
    }
    /// Values after one window that nothing disturbed.
    static std::vector<double> expected_values() {
        Trainer other;
        other.undisturbed_window();
        return other.model.values();
    }
    Context context = Context::cpu({.threads = 2, .seed = 9});
    Regression model{context};
    Sgd optimizer{model.parameters, {.momentum = 0.9}};
    Window window{model.parameters, optimizer};
    toy::Faults faults_;
};

class WindowExceptions : public ::testing::Test, protected Trainer {};

TEST_F(WindowExceptions, ARetriedMicroBatchIsAsIfItHadNotFailed) {
    for (const bool fail_first : {true, false}) {
        Trainer run;
        const auto failing = [&](std::int64_t row) {
            const std::size_t before = run.allocated();
            EXPECT_THROW(run.window.accumulate([&] { return run.micro_batch(row, {.forward = 0}); }), Error);
            EXPECT_EQ(run.context.tape().size(), 0u);
            EXPECT_EQ(run.allocated(), before);
            EXPECT_THROW(run.window.step(0.01), Error);
        };
        if (fail_first) failing(0);
        run.window.accumulate([&] { return run.micro_batch(0); });
        if (!fail_first) failing(16);
        if (!fail_first) failing(16);
        run.window.accumulate([&] { return run.micro_batch(16); });
        run.window.step(0.01);
        EXPECT_EQ(run.model.values(), expected_values());
    }
}

TEST_F(WindowExceptions, HandlesThatSurviveTheCallableBecomeLeaves) {
    Tensor survivor;
    EXPECT_THROW(window.accumulate([&]() -> MicroBatch {
        survivor = model.micro_batch(0, 16).loss_sum;
        throw std::runtime_error("the callable's own");
    }),
                 std::runtime_error);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_FALSE(survivor.needs_grad());
    EXPECT_GT(survivor.item(), 0.0);
}

TEST_F(WindowExceptions, WhatWasRecordedBeforeTheCallableStays) {
    const Tensor loss = model.micro_batch(0, 16).loss_sum;
    const std::size_t records = context.tape().size();
    EXPECT_THROW(window.accumulate([&] { return micro_batch(0, {.forward = 0}); }), Error);
    EXPECT_EQ(context.tape().size(), records);
    EXPECT_TRUE(loss.needs_grad());
    EXPECT_NO_THROW(backward(loss));
}

TEST_F(WindowExceptions, AFailedBackwardNeedsAReset) {
    const std::size_t before = allocated();
    window.accumulate([&] { return micro_batch(0); });
    EXPECT_THROW(window.accumulate([&] { return micro_batch(16, {.backward = 0}); }), Error);
    EXPECT_EQ(context.tape().size(), 0u);
    EXPECT_EQ(allocated(), before);
    EXPECT_THROW(window.accumulate([&] { return micro_batch(16); }), Error);
    EXPECT_THROW(window.step(0.01), Error);
    window.reset();
    EXPECT_THROW(window.step(0.01), Error);  // nothing is there
    context.set_random_counter(0);
    undisturbed_window();
    EXPECT_EQ(model.values(), expected_values());
    EXPECT_EQ(allocated(), before);
}

TEST_F(WindowExceptions, AWindowDoesNotNest) {
    EXPECT_THROW(window.accumulate([&] {
        window.accumulate([&] { return micro_batch(0); });
        return micro_batch(16);
    }),
                 Error);
    EXPECT_THROW(window.accumulate([&] {
        window.reset();
        return micro_batch(16);
    }),
                 Error);
    undisturbed_window();
    EXPECT_EQ(model.values(), expected_values());
}

}  // namespace
}  // namespace headroom
