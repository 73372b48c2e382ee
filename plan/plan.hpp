#pragma once
// A plan: how a step's samples are shared out, and which ops run again in backward. It is made for a budget by a
// `Planner`, and for one program: the ops that a micro-batch records, with their shapes, strides, dtypes and inputs.
//
//     plan::write_plan("gpt.plan.json", plan);
//     const plan::Plan plan = plan::read_plan("gpt.plan.json");
//     context.policy(plan.policy);
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom::plan {

/// How the samples of a step are shared out, and what the workload does otherwise.
struct MicroBatching {
    std::int64_t batch = 1;       ///< samples in a micro-batch
    std::int64_t accumulate = 1;  ///< micro-batches in a step
    std::string choice = {};      ///< one of `Workload::choices`; empty: none of them

    friend bool operator==(const MicroBatching&, const MicroBatching&) = default;
};

/// An op of a program, by its place and by what it is.
struct ProgramOp {
    std::string path;
    std::string op;
    std::uint32_t call = 0;
    std::uint32_t ordinal = 0;
    std::string digest =
        {};  ///< 16 hexadecimal digits, of its name, shapes, strides, dtypes and where its inputs come from

    friend bool operator==(const ProgramOp&, const ProgramOp&) = default;
};

struct Plan {
    MicroBatching division = {};
    /// Rules, for `Context::policy(Policy)`; none keeps all.
    std::optional<Policy> policy = {};
    std::size_t peak_bytes_allocated = 0;  ///< of the whole rehearsal
    std::size_t peak_bytes_reserved = 0;
    double step_seconds = 0;              ///< predicted: of several ranks, of the first
    bool measured = false;                ///< the prediction is from times that were measured, not from assumed rates
    std::uint64_t replayed_ops = 0;       ///< that backward runs again in a step: of several ranks, of the first
    std::vector<ProgramOp> program = {};  ///< that it is for
    /// Samples in a micro-batch of the workload's own division: more than `division.batch` where the plan splits it.
    std::int64_t whole_batch = 0;
    double gain = 0;         ///< share of a step's time that it saves beside keeping all in undivided micro-batches
    std::int64_t kinds = 1;  ///< of micro-batches in a step, of which the last one is planned
    std::size_t budget = 0;  ///< bytes that `Trainer::plan` was given for it; 0: not known

    /// "3 micro-batches of 4 samples, 120 ops run again in a step, 536870912 bytes reserved"; behind the samples
    /// ", split from 12: draws differ", if so; at the end what `gain` and `kinds` say.
    std::string to_string() const;
};

/// The ops of a program but for casts, which autocast makes; inputs are followed through these. No attributes: a plan
/// stays valid where a learning rate, a seed or a dropout changes.
std::vector<ProgramOp> ops_of(const RecordedProgram& program);
/// The first op that differs: "its op 3 is gelu in mlp, and here it is relu in mlp"; empty if none does.
std::string difference(const std::vector<ProgramOp>& program, const std::vector<ProgramOp>& here);
/// SHA-256 over these, 64 hexadecimal digits.
std::string program_sha256(const std::vector<ProgramOp>& ops);
/// Errors: Error that names the first op that differs if the plan is for another program.
void check_program(const Plan& plan, const RecordedProgram& program);

/// As JSON that people can read.
std::string plan_text(const Plan& plan);
/// Errors: FileError if the text, which is from `source`, is no plan.
Plan parse_plan(const std::string& text, const std::string& source);
/// Errors: FileError.
void write_plan(const std::filesystem::path& path, const Plan& plan);
/// Errors: FileError if it can't be read or is no such file.
Plan read_plan(const std::filesystem::path& path);

}  // namespace headroom::plan
