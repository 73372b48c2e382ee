// Random programs of all ops: operands that are shared, overlapping slices, expanded, views of temporaries or in half
// precision; gradients with several consumers, retained ones, branches that no loss reaches. Each runs with all handles
// kept, where nothing can be written over; with handles moved and dropped; under policies that recompute; without its
// unreached branches; without recording; and dry. All give the same bits. Their reference is each step alone, on
// copies.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/test/agreement.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/core/op_programs.hpp>

namespace headroom::test {
namespace {

using Elements = std::vector<double>;
using Fill = SampleInput::Fill;

constexpr std::int64_t kLargest = 1 << 12;  // elements of an operand

Context strict_context() { return Context::cpu({.threads = 1, .fill_uninitialized_memory = true}); }

/// The accepted samples of each op, but for large ones.
const std::vector<std::vector<ErasedSample>>& samples() {
    static const auto all = [] {
        std::vector<std::vector<ErasedSample>> result;
        for (const OpEntry& op : all_ops()) {
            result.push_back(accepted(op));
            std::erase_if(result.back(), [](const ErasedSample& sample) {
                return std::any_of(sample.inputs.begin(), sample.inputs.end(),
                                   [](const SampleInput& input) { return input.shape.numel() > kLargest; });
            });
        }
        return result;
    }();
    return all;
}

std::size_t op_named(const std::string& name) {
    std::size_t i = 0;
    while (all_ops()[i].table->info.name != name) ++i;
    return i;
}

bool finite(const Elements& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

/// True if an op may be given the values where it asks for such a fill.
bool fits(Fill fill, const Elements& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    switch (fill) {
        case Fill::positive:
            return *low >= 0.3 && *high <= 4.0;
        case Fill::unit:
            return *low >= 0.02 && *high <= 0.98;
        default:
            return *low >= -4.0 && *high <= 4.0;
    }
}

/// The steps that the losses need.
std::vector<bool> reached_steps(const Program& program) {
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
class Writer {
    std::int64_t pick(std::int64_t bound) {
        return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
    }

    template <class List>
    const auto& one_of(const List& list) {
        return list[static_cast<std::size_t>(pick(static_cast<std::int64_t>(std::size(list))))];
    }

  public:
    explicit Writer(std::uint64_t seed)
        : random_(seed), context_(strict_context()), machine_(context_, program, Handles::kept) {
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
            step.op = static_cast<std::size_t>(pick(static_cast<std::int64_t>(samples().size())));
            const auto empty = [](const SampleInput& input) { return input.defined && input.shape.numel() == 0; };
            for (int tries = 0; tries < 3; ++tries) {  // few without elements
                step.sample = one_of(samples()[step.op]);
                if (std::none_of(step.sample.inputs.begin(), step.sample.inputs.end(), empty)) break;
            }
        } else {
            step.op = op_named(one_of(kElementwise));
            step.sample = accepted(all_ops()[step.op])[0];
            const auto from = static_cast<std::size_t>(pick(static_cast<std::int64_t>(program.variables.size())));
            for (SampleInput& input : step.sample.inputs) input = SampleInput::normal(program.variables[from].shape);
            const Elements& values = program.variables[from].values;
            const bool taken = computes(program.variables[from].dtype) && !values.empty() && fits(Fill::normal, values);
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
        const bool chained = is_floating(what) ? has_gradient(what) : what.fill == Fill::boolean;
        std::vector<std::size_t> candidates;
        for (std::size_t v = 0; v < program.variables.size(); ++v) {
            const Variable& variable = program.variables[v];
            const bool kind = is_floating(what) ? computes(variable.dtype) : variable.dtype == Dtype::boolean;
            if (kind && !variable.values.empty() && finite(variable.values)) candidates.push_back(v);
        }
        if (!chained || candidates.empty() || what.shape.numel() == 0 || pick(8) == 0) return add_leaf(what);
        const auto count = static_cast<std::int64_t>(candidates.size());
        std::size_t found = candidates[static_cast<std::size_t>(std::max(pick(count), pick(count)))];
        const auto near = static_cast<std::size_t>(neighbour);
        if (std::find(candidates.begin(), candidates.end(), near) != candidates.end() && pick(2) == 0) found = near;
        if (!is_floating(what)) return found;
        if (program.dtype == Dtype::f32 && pick(4) == 0) found = half(found);
        if (fits(what.fill, program.variables[found].values)) return found;
        if (!fits(Fill::normal, program.variables[found].values) || pick(2) == 0) found = unary("tanh", found);
        if (what.fill == Fill::positive) return unary("exp", unary("tanh", found));
        return what.fill == Fill::unit ? unary("sigmoid", found) : found;
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
            const bool usable =
                variable.maker >= 0 && variable.requires_grad && computes(variable.dtype) && finite(variable.values);
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

/// Every step alone, on copies of its operands, from the values that the program's run found. Gradients are handed from
/// step to step on the host.
class Reference {
  public:
    Reference(Context& context, const Program& program, const Seed& seed)
        : context_(context), program_(program), seed_(seed) {}

    /// The gradients of all variables; none where none arrives. Each element of a gradient is off by `error`,
    /// relatively, up or down, wherever it is handed on.
    std::vector<std::optional<Elements>> gradients(double error, std::uint64_t draw) {
        error_ = error;
        random_.seed(draw);
        all_.assign(program_.variables.size(), {});
        for (std::size_t i = 0; i < program_.losses.size(); ++i) {
            const std::size_t loss = program_.losses[i];
            const Elements projection = draw_projection(program_.variables[loss].shape.numel(), i, seed_);
            Elements& gradient = gradient_of(loss);
            for (std::size_t k = 0; k < projection.size(); ++k) gradient[k] += disturbed(projection[k]);
        }
        for (std::size_t s = program_.steps.size(); s-- > 0;) step(program_.steps[s]);
        return all_;
    }

  private:
    Elements& gradient_of(std::size_t variable) {
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
            Elements gradient = all_[v].value_or(Elements(program_.variables[v].values.size()));
            for (double& value : gradient) value = disturbed(value);
            const Tensor part = sum(outputs[j] * context_.from_host(gradient, outputs[j].shape()));
            total = total.defined() ? total + part : part;
        }
        if (!total.defined()) return;
        backward(total);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!inputs[i].defined() || !inputs[i].requires_grad() || !inputs[i].grad().defined()) continue;
            const Elements part = inputs[i].grad().to_vector<double>();
            Elements& gradient = gradient_of(static_cast<std::size_t>(step.operands[i].variable));
            for (std::size_t k = 0; k < part.size(); ++k)
                gradient[static_cast<std::size_t>(at[i][k])] += disturbed(part[k]);
        }
    }

    void compare(const Step& step, const Elements& alone, std::size_t variable, double scale) const {
        const Elements& values = program_.variables[variable].values;
        const double bound = 64 * terms(step.sample) * epsilon(Dtype::f64) * std::max(scale, largest(alone));
        const auto* name = all_ops()[step.op].table->info.name;
        expect_close({values}, {alone}, 1.0, std::string(name) + " beside others: output", {bound});
    }

    Context& context_;
    const Program& program_;
    const Seed& seed_;
    std::vector<std::optional<Elements>> all_;
    std::mt19937_64 random_;
    double error_ = 0;
};

bool same_bits(const Elements& a, const Elements& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

std::string name_of(const Program& program, std::size_t variable) {
    const int maker = program.variables[variable].maker;
    const char* op = maker < 0 ? "leaf" : all_ops()[program.steps[static_cast<std::size_t>(maker)].op].table->info.name;
    return "variable " + std::to_string(variable) + " (" + op + ")";
}

std::string listing(const Program& program) {
    std::string text = std::string(name(program.dtype)) + (program.autocast ? ", autocast" : "") + "\n";
    for (const Step& step : program.steps) {
        text += name_of(program, step.result) + ", " + step.sample.label + ":";
        for (const Operand& operand : step.operands) {
            text += " " + std::to_string(operand.variable) + "/" + std::to_string(static_cast<int>(operand.sight));
            text += (operand.copied ? "c" : "") + std::string(operand.detached ? "d" : "");
        }
        text += program.variables[step.result].retained ? ", retained\n" : "\n";
    }
    text += "losses:";
    for (const std::size_t loss : program.losses) text += " " + std::to_string(loss);
    return text;
}

class OpPrograms : public testing::Test {
  protected:
    struct Outcome {
        bool done = false;
        std::vector<std::optional<Elements>> gradients;
        MemoryStatistics memory;
    };

    /// All values are those of the program, when they are made and as long as a handle is there.
    Outcome run(const Program& program, std::optional<Handles> handles, bool policies, const std::vector<bool>& steps) {
        SCOPED_TRACE(std::string(!handles                   ? "mixed"
                                 : handles == Handles::kept ? "kept"
                                                            : "moved") +
                     " handles" + (policies ? ", with policies" : ""));
        Context context = strict_context();
        Machine machine(context, program, handles, policies);
        machine.forward(steps);
        expect_values(program, machine, steps);
        Outcome outcome;
        outcome.done = machine.backward_of(seed);
        expect_values(program, machine, steps);
        outcome.gradients = machine.gradients();
        outcome.memory = context.memory().statistics();
        machine.drop();
        EXPECT_EQ(context.tape().size(), 0u);
        EXPECT_EQ(context.memory().statistics().allocated, 0u);
        return outcome;
    }

    static void expect_values(const Program& program, const Machine& machine, const std::vector<bool>& steps) {
        for (std::size_t v = 0; v < program.variables.size(); ++v) {
            const Variable& variable = program.variables[v];
            if (variable.maker >= 0 && !steps[static_cast<std::size_t>(variable.maker)]) continue;
            EXPECT_TRUE(same_bits(machine.made[v], variable.values)) << name_of(program, v) << " when it was made";
            if (!machine.variables[v].defined()) continue;
            EXPECT_TRUE(same_bits(machine.variables[v].to_vector<double>(), variable.values))
                << name_of(program, v) << " later";
        }
    }

    void expect_gradients(const Program& program, const Outcome& got, const Outcome& want) {
        EXPECT_EQ(got.done, want.done);
        for (std::size_t v = 0; v < program.variables.size(); ++v) {
            const auto &a = got.gradients[v], &b = want.gradients[v];
            EXPECT_TRUE(a && b ? same_bits(*a, *b) : !a && !b) << "gradient of " << name_of(program, v);
        }
    }

    /// Each rounding disturbs a gradient by as much as `terms` epsilons of the largest one; how far that is handed on
    /// is found by disturbing all of them.
    void expect_reference(const Program& program, const Outcome& got) {
        constexpr double error = 0x1p-24;
        Reference reference(reference_context_, program, seed);
        const auto want = reference.gradients(0, 0);
        double most = 0, count = 64;
        for (const auto& gradient : want) {
            if (gradient && !finite(*gradient)) return;
            if (gradient) most = std::max(most, largest(*gradient));
        }
        ++compared;
        for (const Step& step : program.steps) count = std::max(count, terms(step.sample));
        const std::vector<std::optional<Elements>> disturbed[] = {reference.gradients(error, 1),
                                                                  reference.gradients(error, 2)};
        for (std::size_t v = 0; v < want.size(); ++v) {
            if (!program.variables[v].has_gradient_after()) continue;
            ASSERT_EQ(got.gradients[v].has_value(), want[v].has_value()) << "gradient of " << name_of(program, v);
            if (!want[v] || program.dtype != Dtype::f64) continue;
            double scale = most;
            for (const auto& other : disturbed) {
                for (std::size_t k = 0; k < want[v]->size(); ++k)
                    scale = std::max(scale, std::abs((*other[v])[k] - (*want[v])[k]) / error);
            }
            expect_close({*got.gradients[v]}, {*want[v]}, 64 * count * epsilon(Dtype::f64),
                         "gradient of " + name_of(program, v), {scale});
        }
    }

    void check(const Program& program) {
        const std::vector<bool> all(program.steps.size(), true), reached = reached_steps(program);
        for (const Step& step : program.steps) ++uses[step.op];
        const Outcome kept = run(program, Handles::kept, false, all);
        if (kept.done) expect_reference(program, kept);
        const Outcome moved = run(program, Handles::moved, false, all);
        expect_gradients(program, moved, kept);
        expect_gradients(program, run(program, std::nullopt, true, all), kept);
        const Outcome recomputed = run(program, Handles::moved, true, all);
        expect_gradients(program, recomputed, kept);
        in_place += moved.memory.allocations < kept.memory.allocations;
        if (kept.done) {
            const Outcome pruned = run(program, Handles::moved, false, reached);
            expect_gradients(program, pruned, kept);
            EXPECT_EQ(moved.memory.peak_allocated, pruned.memory.peak_allocated) << "for what no loss needs";
        }
        // A feed-forward that keeps its inner array computes from that as it is rounded to a half.
        if (program.dtype == Dtype::f64) expect_without_gradients(program, all);
        expect_rehearsal(program, all, recomputed);
    }

    void check_all(std::uint64_t first, std::uint64_t programs) {
        for (std::uint64_t number = first; number < first + programs && !HasFailure(); ++number) {
            const Program program = Writer(number).program;
            SCOPED_TRACE("HEADROOM_FUZZ_SEED=" + std::to_string(number) + "\n" + listing(program));
            ASSERT_NO_THROW(check(program));
        }
    }

    static void expect_without_gradients(const Program& program, const std::vector<bool>& steps) {
        Context context = strict_context();
        SCOPED_TRACE("without recording");
        const NoGradGuard no_grad(context);
        Machine machine(context, program, Handles::moved);
        machine.forward(steps);
        expect_values(program, machine, steps);
        machine.drop();
    }

    void expect_rehearsal(const Program& program, const std::vector<bool>& steps, const Outcome& real) {
        Context context = Context::dry(reference_context_.profile());
        Machine machine(context, program, Handles::moved, true);
        machine.forward(steps);
        machine.backward_of(seed);
        EXPECT_EQ(context.memory().statistics().peak_allocated, real.memory.peak_allocated);
        machine.drop();
    }

    Seed seed;
    Context reference_context_ = strict_context();
    std::vector<int> uses = std::vector<int>(all_ops().size());
    int compared = 0;
    int in_place = 0;
};

TEST_F(OpPrograms, GiveTheSameBitsWhoeverHoldsTheirValues) {
    const char* fixed = std::getenv("HEADROOM_FUZZ_SEED");
    const char* many = std::getenv("HEADROOM_FUZZ_PROGRAMS");
    const std::uint64_t first = fixed ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    const std::uint64_t programs = many ? std::strtoull(many, nullptr, 10) : fixed ? 1 : 1000;
    std::printf("seeds %llu to %llu (HEADROOM_FUZZ_SEED starts there, HEADROOM_FUZZ_PROGRAMS runs as many)\n",
                static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + programs - 1));
    std::fflush(stdout);
    check_all(first, programs);
}

/// Always the same ones: what they see, they always see.
TEST_F(OpPrograms, ReachEveryOp) {
    constexpr std::uint64_t programs = 1000;
    check_all(1, programs);
    for (std::size_t op = 0; op < uses.size(); ++op) EXPECT_GT(uses[op], 0) << all_ops()[op].table->info.name;
    EXPECT_GT(compared, static_cast<int>(programs / 2));
    EXPECT_GT(in_place, static_cast<int>(programs / 4));
}

}  // namespace
}  // namespace headroom::test
