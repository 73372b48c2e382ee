#pragma once
// Programs of Headroom's own ops, and the machine that runs them. A step is a sample call of an op on variables that
// earlier steps made, seen through views: shared by several operands and steps, in slices that overlap, expanded, in a
// copy that only the call holds. The machine keeps all handles, or gives each away at its last use.
//
//     Machine machine(context, program, Handles::moved);
//     machine.forward(steps);
//     machine.backward_of(seed);
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/all_ops.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/test/sample_calls.hpp>

namespace headroom::test {

inline Context program_context() { return Context::cpu({.threads = 1, .fill_uninitialized_memory = true}); }

inline bool all_finite(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

/// How an operand's elements are found in a variable: all in their order; `offset`, `offset + step`, ... in row-major
/// order; a range of each axis; with the first and the last axis in each other's place; one for all; over and over.
enum class Sight : std::uint8_t { whole, flat, corner, turned, one, repeated };

struct Operand {
    int variable = -1;  ///< none: left out
    Sight sight = Sight::whole;
    std::int64_t offset = 0;
    std::int64_t step = 1;
    bool copied = false;  ///< a view of a copy that only the call holds
    bool detached = false;
};

struct Step {
    std::size_t op = 0;
    ErasedSample sample;
    std::vector<Operand> operands;
    std::size_t result = 0;  ///< the first of the variables that it makes
    int opens = -1;          ///< the path of the region that is opened before
    int closes = 0;          ///< the number of regions that are closed after
};

/// Given away at its last use, held until backward begins, or to the end.
enum class Handles : std::uint8_t { moved, held, kept };

struct Variable {
    HostInput leaf;  ///< of what no step makes
    Layout layout = Layout::contiguous;
    bool trained = false;
    int maker = -1;  ///< the step
    bool retained = false;
    Handles handle = Handles::moved;
    // As the run that made the program found it.
    Shape shape;
    Dtype dtype = Dtype::f64;
    std::vector<double> values;
    bool requires_grad = false;

    /// True if its handle is there when backward has ended, so that its gradient can be read.
    bool has_gradient_after() const { return trained || retained; }
};

struct Program {
    Dtype dtype = Dtype::f64;
    bool autocast = false;
    std::vector<Variable> variables;
    std::vector<Step> steps;
    std::vector<std::size_t> losses;
    std::vector<std::pair<std::string, std::size_t>> policies;  ///< pattern, and which of three
};

inline const std::vector<std::string> kProgramPaths = {"a", "a.b", "a.b.c", "d", "d.a"};

inline Tensor seen(Tensor x, const Operand& operand, const Shape& shape) {
    const std::int64_t count = shape.numel();
    if (operand.copied) x = clone(std::move(x));
    switch (operand.sight) {
        case Sight::flat:
            x = x.flatten().slice(0, operand.offset, operand.offset + operand.step * (count - 1) + 1, operand.step);
            break;
        case Sight::corner:
            for (int axis = 0; axis < shape.rank(); ++axis) {
                const std::int64_t start = std::min(operand.offset, x.size(axis) - shape[axis]);
                x = x.slice(axis, start, start + shape[axis]);
            }
            break;
        case Sight::turned:
            x = x.transpose(0, -1);
            break;
        case Sight::one:
            x = expand(x.flatten().slice(0, operand.offset, operand.offset + 1), {count});
            break;
        case Sight::repeated: {
            const std::int64_t size = x.numel();
            x = expand(x.reshape({1, size}), {(count + size - 1) / size, size}).flatten().slice(0, 0, count);
            break;
        }
        default:
            break;
    }
    if (x.shape() != shape) x = x.reshape(shape);
    return operand.detached ? x.detach() : x;
}

class Machine {
  public:
    /// `handles`: of all variables; none: each as the program says.
    Machine(Context& context, const Program& program, std::optional<Handles> handles, bool with_policies = false)
        : context_(context), program_(program), handles_(handles) {
        const std::vector<Policy> policies = {recompute_all(), keep_all(), recompute_cheap()};
        for (const std::string& path : kProgramPaths) context.module_path(path);
        for (const auto& [pattern, which] : program.policies) {
            if (with_policies) context.policy(pattern, policies[which]);
        }
    }
    ~Machine() { close_regions(regions_.size()); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    void place_leaf(std::size_t i) {
        const Variable& leaf = program_.variables[i];
        resize();
        variables[i] = place(context_, leaf.leaf, program_.dtype, leaf.layout, leaf.trained);
        made[i] = variables[i].to_vector<double>();
    }

    /// Runs step `s`; without `computes`, only the regions that it opens and closes.
    void run(std::size_t s, bool computes = true) {
        const Step& step = program_.steps[s];
        if (step.opens >= 0) {
            const std::string& path = kProgramPaths[static_cast<std::size_t>(step.opens)];
            regions_.push_back(std::make_unique<RegionScope>(context_, context_.memory().intern(path)));
        }
        if (computes) compute(step, s);
        close_regions(static_cast<std::size_t>(step.closes));
    }

    void forward(const std::vector<bool>& runs) {
        resize();
        std::optional<Autocast> autocast;
        if (program_.autocast) autocast.emplace(context_, Dtype::bf16);
        for (std::size_t i = 0; i < variables.size(); ++i) {
            if (program_.variables[i].maker < 0) place_leaf(i);
        }
        last_use_.assign(variables.size(), -1);
        for (std::size_t s = 0; s < program_.steps.size(); ++s) {
            for (const Operand& operand : program_.steps[s].operands) {
                const auto used = static_cast<std::size_t>(operand.variable);
                if (operand.variable >= 0 && runs[s]) last_use_[used] = static_cast<int>(s);
            }
        }
        for (const std::size_t loss : program_.losses) last_use_[loss] = static_cast<int>(program_.steps.size());
        for (std::size_t s = 0; s < program_.steps.size(); ++s) run(s, runs[s]);
        close_regions(regions_.size());
    }

    /// False if no loss depends on a leaf. The gradient of `large` is the first that is made, and takes more than all
    /// others: the peak is what is there when backward begins.
    bool backward_of(const Seed& seed) {
        std::vector<Tensor> losses;
        for (const std::size_t loss : program_.losses) losses.push_back(variables[loss]);
        Tensor total = projected(context_, losses, seed);
        losses.clear();
        for (std::size_t i = 0; i < variables.size(); ++i) {
            if (handle_of(i) != Handles::kept) variables[i].reset();
        }
        if (!total.defined()) return false;
        const Tensor large = zeros(context_, {1 << 15}, Dtype::f64).detach().requires_grad_();
        total = total + cast(sum(large * large), total.dtype());
        backward(total);
        return true;
    }

    /// Of leaves and of what retains its gradient; none where none arrived.
    std::vector<std::optional<std::vector<double>>> gradients() const {
        std::vector<std::optional<std::vector<double>>> all(variables.size());
        for (std::size_t i = 0; i < variables.size(); ++i) {
            if (!variables[i].defined() || !program_.variables[i].has_gradient_after()) continue;
            const Tensor gradient = variables[i].grad();
            if (gradient.defined()) all[i] = gradient.to_vector<double>();
        }
        return all;
    }

    void drop() {
        variables.clear();
        kept_.clear();
    }

    std::vector<Tensor> variables;
    std::vector<std::vector<double>> made;  ///< the variables' values when they were made

  private:
    void resize() {
        variables.resize(program_.variables.size());
        made.resize(program_.variables.size());
    }

    void close_regions(std::size_t count) {
        for (; count > 0 && !regions_.empty(); --count) regions_.pop_back();
    }

    Handles handle_of(std::size_t i) const {
        const Variable& variable = program_.variables[i];
        return variable.has_gradient_after() ? Handles::kept : handles_.value_or(variable.handle);
    }

    Tensor operand(const Step& step, std::size_t s, std::size_t i) {
        const Operand& what = step.operands[i];
        if (what.variable < 0) return {};
        const auto v = static_cast<std::size_t>(what.variable);
        const bool again = std::any_of(step.operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, step.operands.end(),
                                       [&](const Operand& other) { return other.variable == what.variable; });
        const bool last = v < last_use_.size() && last_use_[v] == static_cast<int>(s) && !again;
        Tensor x = last && handle_of(v) == Handles::moved ? std::move(variables[v]) : variables[v];
        return seen(std::move(x), what, step.sample.inputs[i].shape);
    }

    void compute(const Step& step, std::size_t s) {
        std::vector<Tensor> inputs;
        for (std::size_t i = 0; i < step.operands.size(); ++i) inputs.push_back(operand(step, s, i));
        if (handles_ == Handles::kept) kept_.insert(kept_.end(), inputs.begin(), inputs.end());
        std::vector<Tensor> outputs = call(context_, all_ops()[step.op], step.sample, std::move(inputs));
        resize();
        for (std::size_t j = 0; j < outputs.size(); ++j) {
            const std::size_t v = step.result + j;
            made[v] = outputs[j].to_vector<double>();
            if (program_.variables[v].retained && outputs[j].requires_grad()) outputs[j].retain_grad();
            const bool used = last_use_.empty() || last_use_[v] >= 0 || handle_of(v) != Handles::moved;
            if (used) variables[v] = std::move(outputs[j]);
        }
    }

    Context& context_;
    const Program& program_;
    std::optional<Handles> handles_;
    std::vector<std::unique_ptr<RegionScope>> regions_;
    std::vector<int> last_use_;  ///< the step; that behind the last one: a loss
    std::vector<Tensor> kept_;
};

}  // namespace headroom::test
