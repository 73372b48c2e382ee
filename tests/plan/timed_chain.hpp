#pragma once
// Programs of functions in a row, and runs of them as if they had been timed.
//
//     costs.measure({timed(chain(100, {"gelu"}), {{{.forward = {3}}}})});
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/plan/costs.hpp>

namespace headroom::plan {

/// A function of `rows` x 4 elements, and a sum over them, in `names`.
inline RecordedProgram chain(std::int64_t rows, const std::vector<std::string>& names, std::size_t parameters = 1000) {
    RecordedProgram program;
    const auto bytes = static_cast<std::size_t>(rows) * 16;
    program.values.push_back({.geometry = {{rows, 4}, {4, 1}}, .bytes = bytes});
    program.values.push_back({.geometry = {{1}, {1}}, .bytes = parameters, .is_parameter = true});
    for (const std::string& name : names) {
        RecordedOp op;
        op.name = name;
        op.inputs = {{static_cast<std::uint32_t>(program.values.size() == 2 ? 0 : program.values.size() - 1),
                      {{rows, 4}, {4, 1}}}};
        op.outputs = {static_cast<std::uint32_t>(program.values.size())};
        op.differentiable = true;
        program.values.push_back({.geometry = {{rows, 4}, {4, 1}},
                                  .bytes = bytes,
                                  .producer = static_cast<std::uint32_t>(program.ops.size())});
        program.ops.push_back(op);
    }
    return program;
}

/// A run of one step for each, of one micro-batch.
inline TimedRun timed(const RecordedProgram& program, const std::vector<std::vector<OpTimes>>& steps) {
    TimedRun run{.program = program, .steps = {}};
    for (const std::vector<OpTimes>& ops : steps) run.steps.push_back({.ops = ops});
    return run;
}

}  // namespace headroom::plan
