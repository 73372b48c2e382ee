// Random programs of all ops: operands that are shared, overlapping slices, expanded, views of temporaries or in half
// precision; gradients with several consumers, retained ones, branches that no loss reaches. Each runs with all handles
// kept, where nothing can be written over; with handles moved and dropped; under policies that recompute; without its
// unreached branches; without recording; and dry. All give the same bits. Their reference is each step alone, on
// copies.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/core/op_program_reference.hpp>
#include <headroom/tests/core/op_program_writer.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::test {
namespace op_programs_test {

using Elements = std::vector<double>;

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
        Context context = program_context();
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
        StepsAlone reference(reference_context_, program, seed);
        const auto want = reference.gradients(0, 0);
        double most = 0, count = 64;
        for (const auto& gradient : want) {
            if (gradient && !all_finite(*gradient)) return;
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
            const Program program = ProgramWriter(number).program;
            SCOPED_TRACE("HEADROOM_TEST_SEED=" + std::to_string(number) + "\n" + listing(program));
            ASSERT_NO_THROW(check(program));
        }
    }

    static void expect_without_gradients(const Program& program, const std::vector<bool>& steps) {
        Context context = program_context();
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
    Context reference_context_ = program_context();
    std::vector<int> uses = std::vector<int>(all_ops().size());
    int compared = 0;
    int in_place = 0;
};

TEST_F(OpPrograms, GiveTheSameBitsWhoeverHoldsTheirValues) {
    const char* many = std::getenv("HEADROOM_FUZZ_PROGRAMS");
    const std::uint64_t programs = many ? std::strtoull(many, nullptr, 10) : 1000;
    const std::uint64_t first = test::random_seed();
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

}  // namespace op_programs_test
}  // namespace headroom::test
