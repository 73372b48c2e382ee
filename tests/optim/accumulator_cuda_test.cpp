// What a GPU decides about steps, while the host only queues them, is what the CPU decides.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace accumulator_cuda_test {

using test::Regression;

std::unique_ptr<Optimizer> make_adamw(Parameters& p) { return std::make_unique<AdamW>(p); }
std::unique_ptr<Optimizer> make_sgd(Parameters& p) { return std::make_unique<Sgd>(p, SgdOptions{.momentum = 0.9}); }

struct Case {
    const char* name;
    std::unique_ptr<Optimizer> (*make)(Parameters&);
    bool stop_when_diverged;
};

/// In f64, so that CPU and GPU differ by less than any decision.
struct Training {
    Training(bool gpu, const Case& test)
        : context(gpu ? Context::cuda() : Context::cpu({.threads = 2})),
          optimizer(test.make(model.parameters)),
          accumulator(model.parameters, *optimizer,
                      {.clip = 0.5,
                       .scale = LossScale::dynamic({.initial = 2, .interval = 2, .minimum = 1}),
                       .stop_when_diverged = test.stop_when_diverged,
                       .kept_results = 20}) {}

    void step(std::int64_t size, bool broken = false) {
        const double before = model.inputs[0];
        if (broken) model.inputs[0] = std::numeric_limits<double>::quiet_NaN();
        for (const std::int64_t row : {0, 16}) {
            accumulator.accumulate([&] {
                return Loss(model.loss(row, std::max<std::int64_t>(1, size)).sum(), static_cast<double>(size));
            });
        }
        model.inputs[0] = before;
        accumulator.step(0.01);
    }
    /// The scale doubles, then halves twice, then can't.
    void run() {
        for (const std::int64_t size : {8, 5, 0, 16}) step(size);
        for (int i = 0; i < 3; ++i) step(8, true);
        for (const std::int64_t size : {1, 0, 7}) step(size);
    }

    Context context;
    Regression model{context, Dtype::f64};
    std::unique_ptr<Optimizer> optimizer;
    GradientAccumulator accumulator;
};

void expect_near(double a, double b) {
    if (std::isfinite(b)) {
        EXPECT_NEAR(a, b, 1e-9 * std::abs(b));
    } else {
        EXPECT_FALSE(std::isfinite(a));
    }
}

class AccumulatorCuda : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    }
};

INSTANTIATE_TEST_SUITE_P(Kinds, AccumulatorCuda,
                         ::testing::Values(Case{"AdamW", make_adamw, false}, Case{"AdamWStopped", make_adamw, true},
                                           Case{"Momentum", make_sgd, false}),
                         [](const auto& info) { return info.param.name; });

TEST_P(AccumulatorCuda, DecidesAsTheCpuDoesWithoutTheHost) {
    Training host(false, GetParam()), device(true, GetParam());
    const std::int64_t waits = device.context.gpu()->host_waits();
    host.run();
    device.run();
    EXPECT_EQ(device.context.gpu()->host_waits(), waits);
    const std::vector<StepResult> want = host.accumulator.results(), got = device.accumulator.results();
    EXPECT_EQ(device.context.gpu()->host_waits(), waits + 1);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
        SCOPED_TRACE(i);
        expect_near(got[i].loss, want[i].loss);
        expect_near(got[i].gradient_norm, want[i].gradient_norm);
        EXPECT_EQ(got[i].multiplier, want[i].multiplier);
        EXPECT_EQ(got[i].terms, want[i].terms);
        EXPECT_EQ(got[i].finite, want[i].finite);
        EXPECT_EQ(got[i].skipped, want[i].skipped);
        EXPECT_EQ(got[i].diverged, want[i].diverged);
    }
    EXPECT_TRUE(want[6].diverged);
    EXPECT_EQ(device.optimizer->steps(), host.optimizer->steps());
    EXPECT_EQ(device.accumulator.loss_scale().state().scale, host.accumulator.loss_scale().state().scale);
    EXPECT_EQ(device.accumulator.loss_scale().state().good_steps, host.accumulator.loss_scale().state().good_steps);
    const std::vector<double> a = device.model.values(), b = host.model.values();
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-8);
}

TEST_P(AccumulatorCuda, ContinuesFromASavedState) {
    Training whole(true, GetParam()), first(true, GetParam()), second(true, GetParam());
    for (int i = 0; i < 5; ++i) whole.step(8 + i);
    for (int i = 0; i < 3; ++i) first.step(8 + i);
    test::copy_training(first.model.parameters, *first.optimizer, second.model.parameters, *second.optimizer);
    second.accumulator.restore(first.accumulator.state_dict().values);
    for (int i = 3; i < 5; ++i) second.step(8 + i);
    EXPECT_EQ(second.model.values(), whole.model.values());
    EXPECT_EQ(second.optimizer->steps(), 5);
    EXPECT_EQ(second.accumulator.loss_scale().state().scale, whole.accumulator.loss_scale().state().scale);
}

TEST_P(AccumulatorCuda, TakesOverTheStateOfATrainingOnTheHost) {
    Training host(false, GetParam()), device(true, GetParam());
    for (int i = 0; i < 3; ++i) host.step(8 + i);
    test::copy_training(host.model.parameters, *host.optimizer, device.model.parameters, *device.optimizer);
    const std::vector<NamedArray> want = host.optimizer->state_dict().arrays,
                                  got = device.optimizer->state_dict().arrays;
    for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(test::read(device.context, got[i].array), test::read(host.context, want[i].array)) << want[i].name;
    }
    for (Training* each : {&host, &device}) each->step(8);
    EXPECT_EQ(device.optimizer->steps(), 4);
    const std::vector<double> a = device.model.values(), b = host.model.values();
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9);
}

}  // namespace accumulator_cuda_test
}  // namespace headroom::optim
