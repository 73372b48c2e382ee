#include <headroom/optim/adamw.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace adamw_test {

using test::read;
using test::Regression;
using test::write;

/// One parameter in plain f64: Loshchilov and Hutter 2019, algorithm 2, with PyTorch's epsilon.
struct Reference {
    std::vector<double> p, m, v;

    void step(double rate, const AdamWOptions& o, double decay, const std::vector<double>& g, std::int64_t t) {
        m.resize(p.size());
        v.resize(p.size());
        for (std::size_t i = 0; i < p.size(); ++i) {
            p[i] -= rate * decay * p[i];
            m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
            v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
            const double first = m[i] / (1 - std::pow(o.beta1, static_cast<double>(t)));
            const double second = v[i] / (1 - std::pow(o.beta2, static_cast<double>(t)));
            p[i] -= rate * first / (std::sqrt(second) + o.epsilon);
        }
    }
};

class AdamWOf : public ::testing::TestWithParam<Dtype> {
  protected:
    Context context = Context::cpu({.threads = 2, .seed = 7});
    Regression model{context, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Dtypes, AdamWOf, ::testing::Values(Dtype::f32, Dtype::f64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(AdamWOf, FollowsThePublishedFormulaAndDecaysMatricesOnly) {
    const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-7, .weight_decay = 0.2};
    AdamW optimizer(model.parameters, options);
    std::vector<Reference> references;
    for (const Parameter& p : model.parameters.all()) references.push_back({p.tensor.to_vector<double>(), {}, {}});
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    for (std::int64_t t = 1; t <= 6; ++t) {
        const double rate = 0.01 * static_cast<double>(t);
        model.parameters.fill_unreached();
        for (std::size_t i = 0; i < references.size(); ++i) {
            const Parameter& p = model.parameters.all()[i];
            std::vector<double> g(references[i].p.size());
            for (double& x : g) x = static_cast<float>(normal(random));
            write(context, g, p.tensor.value()->grad);
            for (double& x : g) x *= 0.125;
            references[i].step(rate, options, p.tensor.rank() == 2 ? 0.2 : 0.0, g, t);
        }
        optimizer.step(rate, 0.125);
        EXPECT_EQ(optimizer.steps(), t);
    }
    // Each step rounds a handful of times at the size of the parameter (below 3) or of the step (below 0.1).
    const double bound = 6 * 4 * 3 * (GetParam() == Dtype::f32 ? 0x1p-24 : 0x1p-53);
    for (std::size_t i = 0; i < references.size(); ++i) {
        const std::vector<double> values = model.parameters.all()[i].tensor.to_vector<double>();
        for (std::size_t k = 0; k < values.size(); ++k)
            EXPECT_NEAR(values[k], references[i].p[k], bound) << i << ' ' << k;
    }
}

TEST_P(AdamWOf, LeavesFrozenParametersTheirMomentsAndPaddingAlone) {
    AdamW optimizer(model.parameters);
    model.parameters.freeze("up.*");
    const std::vector<double> weight = model.up.to_vector<double>();
    const std::vector<double> before = model.values();
    test::set_gradients(model.parameters, 1.0);
    optimizer.step(0.1);
    EXPECT_EQ(model.up.to_vector<double>(), weight);
    EXPECT_NE(model.values(), before);
    for (const NamedArray& entry : optimizer.state_dict().arrays) {
        const std::vector<double> values = read(context, entry.array);
        const bool frozen = entry.name.find(".up.") != std::string::npos;
        for (const double value : values) EXPECT_EQ(value == 0, frozen) << entry.name;
    }
}

TEST_P(AdamWOf, TakesTheMultiplierFromMemoryToo) {
    std::vector<double> values[2];
    for (const bool in_memory : {false, true}) {
        Context context = Context::cpu({.threads = 2, .seed = 7});
        Regression fresh(context, GetParam());
        AdamW optimizer(fresh.parameters);
        test::set_gradients(fresh.parameters, 0.5);
        if (in_memory) {
            optimizer.step(0.1, context.scalar(0.25, Dtype::f64).array());
        } else {
            optimizer.step(0.1, 0.25);
        }
        values[in_memory] = fresh.values();
    }
    EXPECT_EQ(values[0], values[1]);
}

TEST(AdamWErrors, RefusesHyperParametersOutOfRange) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(AdamW(model.parameters, {.beta1 = 1.0}), Error);
    EXPECT_THROW(AdamW(model.parameters, {.beta2 = -0.1}), Error);
    EXPECT_THROW(AdamW(model.parameters, {.epsilon = 0}), Error);
    EXPECT_THROW(AdamW(model.parameters, {.weight_decay = nan}), Error);
    AdamW optimizer(model.parameters);
    EXPECT_THROW(optimizer.step(-1.0), Error);
    EXPECT_THROW(optimizer.step(nan), Error);
    EXPECT_THROW(optimizer.step(0.1, context.scalar(0.25).array()), DtypeError);
    EXPECT_EQ(optimizer.steps(), 0);
}

}  // namespace adamw_test
}  // namespace headroom::optim
