#pragma once
// A plan: how a step's samples are split into micro-batches, and which ops are recomputed in backward. A `Planner`
// makes it for a budget and for one program: the ops that a micro-batch records, with their shapes, strides, dtypes and
// inputs.
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

/// How a step's samples are split into micro-batches, and which alternative of the workload is used.
struct MicroBatching {
    std::int64_t batch = 1;       ///< samples in a micro-batch
    std::int64_t accumulate = 1;  ///< micro-batches in a step
    std::string choice = {};      ///< one of `Workload::choices`; empty: none of them

    friend bool operator==(const MicroBatching&, const MicroBatching&) = default;
};

/// An op of a program, identified by its place and its form.
struct ProgramOp {
    std::string path;
    std::string op;
    std::uint32_t call = 0;
    std::uint32_t ordinal = 0;
    std::string digest = {};  ///< 16 hexadecimal digits over name, shapes, strides, dtypes and sources of inputs

    friend bool operator==(const ProgramOp&, const ProgramOp&) = default;
};

struct Plan {
    MicroBatching division = {};
    /// Rules for `Context::policy(Policy)`; empty: everything is kept.
    std::optional<Policy> policy = {};
    std::size_t peak_bytes_allocated = 0;  ///< in the whole rehearsal
    std::size_t peak_bytes_reserved = 0;
    double step_seconds = 0;              ///< predicted; with several ranks, of rank 0
    bool measured = false;                ///< predicted from measured times, not from assumed rates
    std::uint64_t replayed_ops = 0;       ///< ops recomputed per step; with several ranks, on rank 0
    std::vector<ProgramOp> program = {};  ///< the program that the plan is for
    /// The micro-batch size that the workload asked for. It is above `division.batch` if the plan splits micro-batches.
    std::int64_t whole_batch = 0;
    double gain = 0;  ///< fraction of a step's time saved relative to keeping everything in unsplit micro-batches
    std::int64_t kinds = 1;  ///< kinds of micro-batches in a step; the last one is planned
    std::size_t budget = 0;  ///< budget in bytes given to `Trainer::plan`; 0: unknown

    /// "3 micro-batches of 4 samples, 120 ops run again in a step, 536870912 bytes reserved"; with ", split from 12:
    /// draws differ" after the samples if the plan splits micro-batches, and `gain` and `kinds` at the end.
    std::string to_string() const;
};

/// The ops of a program without the casts that autocast makes; inputs are followed through casts. Attributes are left
/// out: a plan stays valid when a learning rate, a seed or a dropout rate changes.
std::vector<ProgramOp> ops_of(const RecordedProgram& program);
/// The first op that differs: "its op 3 is gelu in mlp, and here it is relu in mlp"; empty if the programs are the
/// same.
std::string difference(const std::vector<ProgramOp>& program, const std::vector<ProgramOp>& here);
/// SHA-256 over the ops, 64 hexadecimal digits.
std::string program_sha256(const std::vector<ProgramOp>& ops);
/// Errors: Error if the plan is for a different program, naming the first op that differs.
void check_program(const Plan& plan, const RecordedProgram& program);

/// The plan as readable JSON.
std::string plan_text(const Plan& plan);
/// Errors: FileError if the text is not a plan; `source` names its origin.
Plan parse_plan(const std::string& text, const std::string& source);
/// Errors: FileError.
void write_plan(const std::filesystem::path& path, const Plan& plan);
/// Errors: FileError if the file can't be read or is not a plan.
Plan read_plan(const std::filesystem::path& path);

}  // namespace headroom::plan
