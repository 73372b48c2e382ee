#pragma once
// Makes random programs of all ops. What a step is given depends on what is there, so the writer runs each step as it
// adds it.
//
//     const Program program = ProgramWriter(seed).program;
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <headroom/tests/core/op_programs.hpp>

namespace headroom::test {

inline constexpr std::int64_t kLargestOperand = 1 << 12;  // elements

/// The accepted samples of each op, but for large ones.
inline const std::vector<std::vector<ErasedSample>>& program_samples() {
    static const auto all = [] {
        std::vector<std::vector<ErasedSample>> result;
        for (const OpEntry& op : all_ops()) {
            result.push_back(accepted(op));
            std::erase_if(result.back(), [](const ErasedSample& sample) {
                return std::any_of(sample.inputs.begin(), sample.inputs.end(),
                                   [](const SampleInput& input) { return input.shape.numel() > kLargestOperand; });
            });
        }
        return result;
    }();
    return all;
}

inline std::size_t op_named(const std::string& name) {
    std::size_t i = 0;
    while (all_ops()[i].table->info.name != name) ++i;
    return i;
}

/// True if an op may be given the values where it asks for such a fill.
inline bool fits(SampleInput::Fill fill, const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    switch (fill) {
        case SampleInput::Fill::positive:
            return *low >= 0.3 && *high <= 4.0;
        case SampleInput::Fill::unit:
            return *low >= 0.02 && *high <= 0.98;
        default:
            return *low >= -4.0 && *high <= 4.0;
    }
}

/// The steps that the losses need.
inline std::vector<bool> reached_steps(const Program& program) {
    std::vector<bool> needed(program.variables.size()), reached(program.steps.size());
    for (const std::size_t loss : program.losses) needed[loss] = true;
    for (std::size_t s = program.steps.size(); s-- > 0;) {
        const Step& step = program.steps[s];
        for (std::size_t j = 0; j < all_ops()[step.op].table->n_outputs; ++j) {
            if (needed[step.result + j]) reached[s] = true;
        }
        for (const Operand& operand : step.operands) {
            if (reached[s] && operand.variable >= 0) needed[static_cast<std::size_t>(operand.variable)] = true;
        }
    }
    return reached;
}

/// Makes a program by running it with all handles kept: what a step is given depends on what is there.
class ProgramWriter {
    std::int64_t pick(std::int64_t bound) {
        return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
    }

    template <class List>
    const auto& one_of(const List& list) {
        return list[static_cast<std::size_t>(pick(static_cast<std::int64_t>(std::size(list))))];
    }

  public:
    explicit ProgramWriter(std::uint64_t seed)
        : random_(seed), context_(program_context()), machine_(context_, program, Handles::kept) {
        seed_.value = seed;
        if (pick(3) == 0) program.dtype = Dtype::f32;
        program.autocast = program.dtype == Dtype::f32 && pick(2) == 0;
        std::optional<Autocast> autocast;
        if (program.autocast) autocast.emplace(context_, Dtype::bf16);
        const bool recomputed = pick(3) == 0;  // all of it, within one region
        for (std::int64_t i = 5 + pick(12); i > 0; --i) add_step(recomputed);
        choose_losses();
        const std::vector<bool> reached = reached_steps(program);
        for (Variable& variable : program.variables) {
            if (variable.maker >= 0 && !reached[static_cast<std::size_t>(variable.maker)]) variable.retained = false;
        }
        const std::vector<std::string> patterns = {"**", "a", "a.*", "*.b", "a.b.c", "d", "**.a", "*"};
        for (std::int64_t i = recomputed ? 0 : 1 + pick(3); i > 0; --i) {
            program.policies.emplace_back(one_of(patterns), static_cast<std::size_t>(pick(3)));
        }
        if (recomputed) program.policies.emplace_back("**", 0);
    }

    Program program;

  private:
    /// In f64 alone there is a reference with a bound.
    bool computes(Dtype dtype) const {
        return kernels::is_floating(dtype) && (dtype == Dtype::f64) == (program.dtype == Dtype::f64);
    }

    /// A call of any op, or a step from one variable on: as models are, most of whose values lie alike.
    void add_step(bool one_region) {
        static const char* const kElementwise[] = {"add",         "mul",  "sub",  "maximum",
                                                   "dropout_add", "tanh", "relu", "clone"};
        Step step;
        if (program.variables.empty() || pick(2) == 0) {
            step.op = static_cast<std::size_t>(pick(static_cast<std::int64_t>(program_samples().size())));
            const auto empty = [](const SampleInput& input) { return input.defined && input.shape.numel() == 0; };
            for (int tries = 0; tries < 3; ++tries) {  // few without elements
                step.sample = one_of(program_samples()[step.op]);
                if (std::none_of(step.sample.inputs.begin(), step.sample.inputs.end(), empty)) break;
            }
        } else {
            step.op = op_named(one_of(kElementwise));
            step.sample = accepted(all_ops()[step.op])[0];
            const auto from = static_cast<std::size_t>(pick(static_cast<std::int64_t>(program.variables.size())));
            for (SampleInput& input : step.sample.inputs) input = SampleInput::normal(program.variables[from].shape);
            const std::vector<double>& values = program.variables[from].values;
            const bool taken =
                computes(program.variables[from].dtype) && !values.empty() && fits(SampleInput::Fill::normal, values);
            if (taken) step.operands.push_back({.variable = static_cast<int>(from)});
        }
        for (std::size_t i = step.operands.size(); i < step.sample.inputs.size(); ++i) {
            step.operands.push_back(operand(step.sample.inputs[i], i > 0 ? step.operands[i - 1].variable : -1));
        }
        if (one_region ? program.steps.empty() : pick(4) == 0)
            step.opens = static_cast<int>(pick(static_cast<std::int64_t>(kProgramPaths.size())));
        if (!one_region && pick(4) == 0) step.closes = static_cast<int>(1 + pick(2));
        add(std::move(step));
    }

    /// Runs the step; its first result.
    std::size_t add(Step step) {
        step.result = program.variables.size();
        const OpTable& op = *all_ops()[step.op].table;
        for (std::size_t j = 0; j < op.n_outputs; ++j) {
            Variable& made = program.variables.emplace_back();
            made.maker = static_cast<int>(program.steps.size());
            made.retained = pick(4) == 0;
            made.handle = static_cast<Handles>(pick(3));
        }
        program.steps.push_back(std::move(step));
        machine_.run(program.steps.size() - 1);
        for (std::size_t v = program.steps.back().result; v < program.variables.size(); ++v) note(v);
        return program.steps.back().result;
    }

    void note(std::size_t v) {
        Variable& variable = program.variables[v];
        const Tensor& x = machine_.variables[v];
        variable.shape = x.shape();
        variable.dtype = x.dtype();
        variable.values = machine_.made[v];
        variable.requires_grad = x.requires_grad();
        variable.retained = variable.retained && variable.requires_grad;
    }

    std::size_t add_leaf(SampleInput what) {
        Variable& leaf = program.variables.emplace_back();
        if (is_floating(what) && what.shape.rank() > 0 && what.shape.numel() > 0 && pick(2) == 0)
            what.shape[static_cast<int>(pick(what.shape.rank()))] += 2;  // slices of it overlap
        leaf.leaf = draw({std::to_string(program.variables.size()), {}, {what}, {}}, seed_)[0];
        leaf.trained = has_gradient(what) && pick(5) > 0;
        leaf.layout = what.shape.numel() > 0 ? static_cast<Layout>(pick(4)) : Layout::contiguous;
        machine_.place_leaf(program.variables.size() - 1);
        note(program.variables.size() - 1);
        return program.variables.size() - 1;
    }

    /// A variable with values that an op may be given as `what`: an earlier one, sometimes that of the operand before.
    std::size_t source(const SampleInput& what, int neighbour) {
        const bool chained = is_floating(what) ? has_gradient(what) : what.fill == SampleInput::Fill::boolean;
        std::vector<std::size_t> candidates;
        for (std::size_t v = 0; v < program.variables.size(); ++v) {
            const Variable& variable = program.variables[v];
            const bool kind = is_floating(what) ? computes(variable.dtype) : variable.dtype == Dtype::boolean;
            if (kind && !variable.values.empty() && all_finite(variable.values)) candidates.push_back(v);
        }
        if (!chained || candidates.empty() || what.shape.numel() == 0 || pick(8) == 0) return add_leaf(what);
        const auto count = static_cast<std::int64_t>(candidates.size());
        std::size_t found = candidates[static_cast<std::size_t>(std::max(pick(count), pick(count)))];
        const auto near = static_cast<std::size_t>(neighbour);
        if (std::find(candidates.begin(), candidates.end(), near) != candidates.end() && pick(2) == 0) found = near;
        if (!is_floating(what)) return found;
        if (program.dtype == Dtype::f32 && pick(4) == 0) found = half(found);
        if (fits(what.fill, program.variables[found].values)) return found;
        if (!fits(SampleInput::Fill::normal, program.variables[found].values) || pick(2) == 0)
            found = unary("tanh", found);
        if (what.fill == SampleInput::Fill::positive) return unary("exp", unary("tanh", found));
        return what.fill == SampleInput::Fill::unit ? unary("sigmoid", found) : found;
    }

    std::size_t half(std::size_t v) {
        ErasedSample sample = accepted(op_entry<ops::Cast>())[0];
        const ops::Cast::Attrs attrs{Dtype::bf16};
        std::memcpy(sample.attrs.data(), &attrs, sizeof(attrs));
        return unary("cast", v, std::move(sample));
    }

    std::size_t unary(const char* name, std::size_t v, std::optional<ErasedSample> sample = {}) {
        Step step;
        step.op = op_named(name);
        step.sample = sample ? *sample : accepted(all_ops()[step.op])[0];
        step.sample.inputs = {SampleInput::normal(program.variables[v].shape)};
        step.operands = {{.variable = static_cast<int>(v)}};
        return add(std::move(step));
    }

    Operand operand(const SampleInput& what, int neighbour) {
        if (!what.defined) return {};
        const std::size_t v = source(what, neighbour);
        const Variable& variable = program.variables[v];
        const Shape &from = variable.shape, &to = what.shape;
        const std::int64_t size = from.numel(), count = to.numel();
        std::vector<Sight> sights;
        if (from == to || count == 0) {
            sights = {Sight::whole, Sight::whole};
        } else if (size == count) {
            sights = {Sight::whole};
        }
        bool corner = from.rank() == to.rank() && count > 0;
        for (int axis = 0; corner && axis < to.rank(); ++axis) corner = from[axis] >= to[axis];
        if (corner && from != to) sights.assign(3, Sight::corner);
        if (from.rank() == to.rank() && to.rank() > 1 && count > 0) {
            Shape turned = from;
            std::swap(turned[0], turned[turned.rank() - 1]);
            if (turned == to) sights.push_back(Sight::turned);
        }
        if (size > count && count > 0) sights.push_back(Sight::flat);
        if (size < count) sights.push_back(Sight::repeated);
        if (count > 0 && pick(6) == 0) sights.push_back(Sight::one);
        Operand result{.variable = static_cast<int>(v)};
        result.sight = sights[static_cast<std::size_t>(pick(static_cast<std::int64_t>(sights.size())))];
        if (size >= 2 * count) result.step = 1 + pick(2);
        if (result.sight == Sight::flat) result.offset = pick(size - result.step * (count - 1));
        if (result.sight == Sight::corner) result.offset = pick(3);
        if (result.sight == Sight::one) result.offset = pick(size);
        result.copied = pick(4) == 0;
        result.detached = pick(12) == 0;
        return result;
    }

    void choose_losses() {
        std::vector<std::size_t> candidates;
        for (std::size_t v = 0; v < program.variables.size(); ++v) {
            const Variable& variable = program.variables[v];
            const bool usable = variable.maker >= 0 && variable.requires_grad && computes(variable.dtype) &&
                                all_finite(variable.values);
            if (usable && largest(variable.values) < 1e3) candidates.push_back(v);
        }
        const auto count = static_cast<std::int64_t>(candidates.size());
        for (std::int64_t i = candidates.empty() ? 0 : 1 + pick(4); i > 0; --i) {
            program.losses.push_back(candidates[static_cast<std::size_t>(std::max(pick(count), pick(count)))]);
        }
    }

    std::mt19937_64 random_;
    Seed seed_;
    Context context_;
    Machine machine_;
};

}  // namespace headroom::test
