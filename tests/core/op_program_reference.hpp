#pragma once
// A second opinion on the gradients of a program: each step alone.
#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <headroom/core/test/agreement.hpp>
#include <headroom/tests/core/op_programs.hpp>

namespace headroom::test {

/// Every step alone, on copies of its operands, from the values that the program's run found. Gradients are handed from
/// step to step on the host.
class StepsAlone {
  public:
    StepsAlone(Context& context, const Program& program, const Seed& seed)
        : context_(context), program_(program), seed_(seed) {}

    /// The gradients of all variables; none where none arrives. Each element of a gradient is off by `error`,
    /// relatively, up or down, wherever it is handed on.
    std::vector<std::optional<std::vector<double>>> gradients(double error, std::uint64_t draw) {
        error_ = error;
        random_.seed(draw);
        all_.assign(program_.variables.size(), {});
        for (std::size_t i = 0; i < program_.losses.size(); ++i) {
            const std::size_t loss = program_.losses[i];
            const std::vector<double> projection = draw_projection(program_.variables[loss].shape.numel(), i, seed_);
            std::vector<double>& gradient = gradient_of(loss);
            for (std::size_t k = 0; k < projection.size(); ++k) gradient[k] += disturbed(projection[k]);
        }
        for (std::size_t s = program_.steps.size(); s-- > 0;) step(program_.steps[s]);
        return all_;
    }

  private:
    std::vector<double>& gradient_of(std::size_t variable) {
        if (!all_[variable]) all_[variable].emplace(program_.variables[variable].values.size());
        return *all_[variable];
    }

    bool arrives(const Step& step) const {
        bool any = false;
        for (std::size_t j = 0; j < all_ops()[step.op].table->n_outputs; ++j)
            any = any || all_[step.result + j].has_value();
        return any;
    }

    double disturbed(double value) { return value * (random_() & 1u ? 1 + error_ : 1 - error_); }

    /// The places of an operand's elements in its variable.
    std::vector<std::int64_t> places(const Operand& operand, const Shape& shape) {
        const Shape& from = program_.variables[static_cast<std::size_t>(operand.variable)].shape;
        std::vector<std::int64_t> numbers(static_cast<std::size_t>(from.numel()));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
        return seen(context_.from_host(numbers, from), operand, shape).to_vector<std::int64_t>();
    }

    void step(const Step& step) {
        std::vector<Tensor> inputs(step.operands.size());
        std::vector<std::vector<std::int64_t>> at(inputs.size());
        double scale = 1;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const Operand& operand = step.operands[i];
            if (operand.variable < 0) continue;
            const Variable& variable = program_.variables[static_cast<std::size_t>(operand.variable)];
            HostInput copy{step.sample.inputs[i], {}};
            at[i] = places(operand, copy.what.shape);
            for (const std::int64_t place : at[i])
                copy.values.push_back(variable.values[static_cast<std::size_t>(place)]);
            const bool wanted = variable.requires_grad && !operand.detached;
            inputs[i] = place(context_, copy, Dtype::f64, Layout::contiguous, wanted);
            scale = std::max(scale, largest(copy.values));
        }
        const std::vector<Tensor> outputs = call(context_, all_ops()[step.op], step.sample, inputs);
        Tensor total;
        for (std::size_t j = 0; j < outputs.size(); ++j) {
            const std::size_t v = step.result + j;
            if (program_.dtype == Dtype::f64) compare(step, outputs[j].to_vector<double>(), v, scale);
            if (!outputs[j].requires_grad() || !arrives(step)) continue;
            std::vector<double> gradient = all_[v].value_or(std::vector<double>(program_.variables[v].values.size()));
            for (double& value : gradient) value = disturbed(value);
            const Tensor part = sum(outputs[j] * context_.from_host(gradient, outputs[j].shape()));
            total = total.defined() ? total + part : part;
        }
        if (!total.defined()) return;
        backward(total);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!inputs[i].defined() || !inputs[i].requires_grad() || !inputs[i].grad().defined()) continue;
            const std::vector<double> part = inputs[i].grad().to_vector<double>();
            std::vector<double>& gradient = gradient_of(static_cast<std::size_t>(step.operands[i].variable));
            for (std::size_t k = 0; k < part.size(); ++k)
                gradient[static_cast<std::size_t>(at[i][k])] += disturbed(part[k]);
        }
    }

    void compare(const Step& step, const std::vector<double>& alone, std::size_t variable, double scale) const {
        const std::vector<double>& values = program_.variables[variable].values;
        const double bound = 64 * terms(step.sample) * epsilon(Dtype::f64) * std::max(scale, largest(alone));
        const auto* name = all_ops()[step.op].table->info.name;
        expect_close({values}, {alone}, 1.0, std::string(name) + " beside others: output", {bound});
    }

    Context& context_;
    const Program& program_;
    const Seed& seed_;
    std::vector<std::optional<std::vector<double>>> all_;
    std::mt19937_64 random_;
    double error_ = 0;
};

}  // namespace headroom::test
