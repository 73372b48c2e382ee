#pragma once
// A two-layer regression for tests of optimizers, small enough to check against plain sums, and access to raw elements.
//
//     Regression model(context, Dtype::f64);
//     accumulator.accumulate([&] { return model.loss(0, 16); });   // rows 0 to 15 of its data
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::test {

inline void fill_normally(Exec& exec, const Array& parameter, const kernels::RandomKey& key) {
    exec.launch([&](auto& stream) { kernels::normal(stream, key, 0.0f, 0.5f, parameter.view()); });
}

class Regression {
  public:
    static constexpr std::int64_t kIn = 7, kHidden = 33, kOut = 3, kRows = 64;

    explicit Regression(Context& context, Dtype dtype = Dtype::f32, const char* name = "")
        : parameters(context, {.name = name, .dtype = dtype}) {
        up = parameters.create("up.weight", {kHidden, kIn}, fill_normally);
        up_bias = parameters.create("up.bias", {kHidden}, fill_normally);
        down = parameters.create("down.weight", {kOut, kHidden}, fill_normally);
        down_bias = parameters.create("down.bias", {kOut}, fill_normally);
        std::mt19937_64 random(20240607);
        std::normal_distribution<double> normal;
        for (std::int64_t i = 0; i < kRows * kIn; ++i) inputs.push_back(normal(random));
        for (std::int64_t i = 0; i < kRows * kOut; ++i) targets.push_back(normal(random));
    }

    /// Rows `first` to `first + count` of the data.
    Tensor rows(const std::vector<double>& values, std::int64_t width, std::int64_t first, std::int64_t count) {
        const std::vector<double> part(values.begin() + first * width, values.begin() + (first + count) * width);
        if (parameters.dtype() == Dtype::f64) return parameters.context().from_host(part, {count, width});
        return parameters.context().from_host(std::vector<float>(part.begin(), part.end()), {count, width});
    }
    /// The sum of squared errors of some rows; a term is a row.
    Loss loss(std::int64_t first, std::int64_t count) {
        const Tensor x = rows(inputs, kIn, first, count);
        Tensor y = linear(tanh(linear(x, up, up_bias)), down, down_bias);
        return {mse_loss(std::move(y), rows(targets, kOut, first, count)).sum(), static_cast<double>(count)};
    }

    std::vector<double> values() { return values_of(parameters); }
    std::vector<double> gradients() { return gradients_of(parameters); }

    Parameters parameters;
    Tensor up, up_bias, down, down_bias;
    std::vector<double> inputs, targets;
};

}  // namespace headroom::test
