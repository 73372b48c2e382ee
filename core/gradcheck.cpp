#include <headroom/core/gradcheck.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Standard normal numbers for output i.
std::vector<double> projection(std::int64_t elements, std::size_t i, std::uint64_t seed) {
    std::seed_seq mix{seed, std::uint64_t{i} + 1000};
    std::mt19937_64 random(mix);
    std::normal_distribution<double> normal;
    std::vector<double> values(static_cast<std::size_t>(elements));
    for (double& value : values) value = normal(random);
    return values;
}

class Gradcheck {
  public:
    Gradcheck(const Function& function, const std::vector<Tensor>& inputs, std::uint64_t seed)
        : function_(function), seed_(seed) {
        for (const Tensor& input : inputs) add(input);
        if (!context_) throw Error("gradcheck: no input requires a gradient");
        if (context_->dry()) throw Error("gradcheck: a dry context has no values to compare");
    }

    void run() {
        const std::vector<std::vector<double>> computed = gradients();
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            for (std::size_t k = 0; k < computed[i].size(); ++k) {
                const Derivative expected = differentiate(i, k);
                if (std::abs(computed[i][k] - expected.value) <= expected.error) continue;
                throw Error(
                    fmt::format("gradcheck: input {}, element {}: backward gives {}, finite differences give {} with "
                                "an error of at most {:.2g}",
                                i, k, computed[i][k], expected.value, expected.error));
            }
        }
    }

  private:
    struct Sum {
        double value = 0, magnitude = 0;  ///< of the products, and of their sizes
    };
    struct Derivative {
        double value, error;
    };

    void add(const Tensor& input) {
        inputs_.push_back(input.defined() ? input.detach() : Tensor());
        values_.emplace_back();
        if (!input.requires_grad()) return;
        if (input.dtype() != Dtype::f64) {
            throw DtypeError(fmt::format("gradcheck: inputs that require a gradient must be f64, got {}",
                                         kernels::name(input.dtype())));
        }
        context_ = &input.context();
        inputs_.back().requires_grad_();
        values_.back() = input.to_vector<double>();
        elements_ += input.numel();
    }

    std::vector<std::vector<double>> gradients() {
        const std::vector<Tensor> outputs = function_(inputs_);
        Tensor loss;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (!outputs[i].requires_grad()) continue;
            const Tensor r = context_->from_host(projection(outputs[i].numel(), i, seed_), outputs[i].shape());
            Tensor part = sum(mul(cast(outputs[i], Dtype::f64), r));
            loss = loss.defined() ? loss + part : part;
        }
        if (!loss.defined()) throw Error("gradcheck: no output depends on an input that requires a gradient");
        backward(loss);
        std::vector<std::vector<double>> result(inputs_.size());
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (!inputs_[i].requires_grad()) continue;
            const Tensor gradient = inputs_[i].grad();
            result[i] = gradient.defined() ? gradient.to_vector<double>() : std::vector<double>(values_[i].size());
            inputs_[i] = inputs_[i].detach();  // what follows records nothing
        }
        return result;
    }

    Sum evaluate(std::size_t input) {
        const NoGradGuard no_grad(*context_);
        std::vector<Tensor> inputs = inputs_;
        inputs[input] = context_->from_host(values_[input], inputs[input].shape());
        const std::vector<Tensor> outputs = function_(inputs);
        long double value = 0.0L;
        Sum sum;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (!is_floating(outputs[i].dtype())) continue;
            const auto y = outputs[i].to_vector<double>();
            const auto r = projection(outputs[i].numel(), i, seed_);
            for (std::size_t k = 0; k < y.size(); ++k) {
                value += static_cast<long double>(r[k]) * y[k];
                sum.magnitude += std::abs(r[k] * y[k]);
            }
        }
        sum.value = static_cast<double>(value);
        return sum;
    }

    /// Central differences with steps h, h / 2 and h / 4, extrapolated twice (Richardson), so that what is left is
    /// O(h^6). Its size is told by the last correction; rounding adds what the evaluations lose, divided by the
    /// smallest step.
    Derivative differentiate(std::size_t input, std::size_t element) {
        constexpr double h = 1.0 / 512;
        double& x = values_[input][element];
        double differences[3];
        double magnitude = 0.0;
        const double at = x;
        for (int i = 0; i < 3; ++i) {
            const double step = h / (1 << i);
            x = at + step;
            const Sum above = evaluate(input);
            x = at - step;
            const Sum below = evaluate(input);
            differences[i] = (above.value - below.value) / (2 * step);
            magnitude = std::max({magnitude, above.magnitude, below.magnitude});
        }
        x = at;
        const double first = (4 * differences[1] - differences[0]) / 3;
        const double second = (4 * differences[2] - differences[1]) / 3;
        const double terms = static_cast<double>(64 + elements_);
        const double rounding = terms * kernels::epsilon(Dtype::f64) * (magnitude + 1.0) / (h / 4);
        return {(16 * second - first) / 15, std::abs(second - first) + rounding};
    }

    const Function& function_;
    std::uint64_t seed_;
    Context* context_ = nullptr;
    std::vector<Tensor> inputs_;
    std::vector<std::vector<double>> values_;  ///< of the inputs that are differentiated
    std::int64_t elements_ = 0;
};

}  // namespace

void gradcheck(const Function& function, const std::vector<Tensor>& inputs, std::uint64_t seed) {
    Gradcheck(function, inputs, seed).run();
}

void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
               std::uint64_t seed) {
    gradcheck(Function([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{function(in)}; }), inputs, seed);
}

}  // namespace headroom
