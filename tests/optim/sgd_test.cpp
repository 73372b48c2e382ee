#include <headroom/optim/sgd.hpp>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/optim/regression.hpp>

namespace headroom::optim {
namespace sgd_test {

using test::Regression;
using test::write;

class SgdOf : public ::testing::TestWithParam<SgdOptions> {
  protected:
    Context context = Context::cpu({.threads = 2, .seed = 7});
};

INSTANTIATE_TEST_SUITE_P(Forms, SgdOf,
                         ::testing::Values(SgdOptions{}, SgdOptions{.weight_decay = 0.1},
                                           SgdOptions{.momentum = 0.9, .weight_decay = 0.1},
                                           SgdOptions{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}));

TEST_P(SgdOf, FollowsThePublishedFormulaAndDecaysMatricesOnly) {
    const SgdOptions options = GetParam();
    Regression model(context, Dtype::f64);
    Sgd optimizer(model.parameters, options);
    struct Reference {
        std::vector<double> p, v;
    };
    std::vector<Reference> references;
    for (const Parameter& p : model.parameters.all()) {
        references.push_back({p.tensor.to_vector<double>(), std::vector<double>(p.tensor.numel(), 0.0)});
    }
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    model.parameters.fill_unreached();
    for (int t = 0; t < 6; ++t) {
        for (std::size_t i = 0; i < references.size(); ++i) {
            const Parameter& parameter = model.parameters.all()[i];
            std::vector<double> gradient(references[i].p.size());
            for (double& x : gradient) x = normal(random);
            write(context, gradient, parameter.tensor.value()->grad);
            for (std::size_t k = 0; k < gradient.size(); ++k) {
                double& p = references[i].p[k];
                double& v = references[i].v[k];
                const double g = 0.3 * gradient[k] + (parameter.tensor.rank() == 2 ? options.weight_decay * p : 0.0);
                v = options.momentum * v + g;
                p -= 0.05 * (options.nesterov ? g + options.momentum * v : v);
            }
        }
        optimizer.step(0.05, 0.3);
    }
    for (std::size_t i = 0; i < references.size(); ++i) {
        const std::vector<double> values = model.parameters.all()[i].tensor.to_vector<double>();
        for (std::size_t k = 0; k < values.size(); ++k) EXPECT_NEAR(values[k], references[i].p[k], 6 * 4 * 4 * 0x1p-53);
    }
}

TEST(Sgd, KeepsNoStateWithoutMomentum) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    model.parameters.materialize();
    const auto state_bytes = [&] {
        const auto category = static_cast<std::size_t>(Category::optimizer_state);
        return context.memory().statistics().allocated_by_category[category];
    };
    Sgd plain(model.parameters);
    EXPECT_EQ(state_bytes(), 64u);  // the multiplier
    EXPECT_TRUE(plain.state_dict().arrays.empty());
    Sgd heavy(model.parameters, {.momentum = 0.9});
    EXPECT_EQ(heavy.state_dict().arrays.size(), 4u);
    EXPECT_EQ(heavy.state_dict().arrays[1].name, "sgd.velocity.up.bias");
}

TEST(Sgd, RefusesHyperParametersOutOfRange) {
    Context context = Context::cpu({.threads = 1});
    Regression model(context);
    EXPECT_THROW(Sgd(model.parameters, {.momentum = 1.0}), Error);
    EXPECT_THROW(Sgd(model.parameters, {.weight_decay = -1}), Error);
    EXPECT_THROW(Sgd(model.parameters, {.nesterov = true}), Error);
}

}  // namespace sgd_test
}  // namespace headroom::optim
