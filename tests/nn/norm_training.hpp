#pragma once
// A small training with batch normalisation, whose loss is not finite where the factor of an input is not.
//
//     NormTraining training([] { return Context::cpu(); });
//     training.accumulate();
//     training.state("bn1.running_mean");
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/batch_norm.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>

namespace headroom::test {}

namespace headroom::nn::test {

using namespace headroom::test;  // what tests of all libraries share goes by test::, too

inline constexpr std::int64_t kChannels = 5;

/// Two norms, the second with a residual.
struct NormNet : Module<NormNet> {
    explicit NormNet(const Path& path)
        : Module(path),
          first(path / "bn1", kChannels, {.relu = true}),
          second(path / "bn2", kChannels, {.relu = true}) {}
    Tensor forward(Tensor x) const {
        const Tensor y = square(first(x));
        return second(y, std::move(x));
    }
    BatchNorm2d first, second;
};

struct NormTraining {
    explicit NormTraining(const std::function<Context()>& make) : context(make()) {}

    Tensor input(double factor = 1) {
        std::vector<float> values;
        for (int i = 0; i < 4 * kChannels * 9; ++i) values.push_back(static_cast<float>(std::sin(0.7 * next++)));
        values[3] *= static_cast<float>(factor);
        return context.from_host(values, {4, kChannels, 3, 3});
    }
    Loss loss(Tensor x) { return {sum(model(std::move(x))), 1}; }
    void accumulate(double factor = 1) { accumulator.accumulate(work, std::array{input(factor)}); }
    std::vector<double> state(const char* what = "bn2.running_var") const {
        return parameters.at(what).tensor.to_vector<double>();
    }
    double batches() const { return state("bn2.num_batches_tracked")[0]; }

    Context context;
    Parameters parameters{context};
    NormNet model{Path(parameters)};
    optim::Sgd optimizer{parameters, {}};
    optim::GradientAccumulator accumulator{parameters, optimizer};
    optim::GraphedWork work = accumulator.graph<1>([this](const Tensor& x) { return loss(x); });
    int next = 0;
};

}  // namespace headroom::nn::test
