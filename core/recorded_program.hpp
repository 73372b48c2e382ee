#pragma once
// The program that a micro-batch recorded, as returned by `rehearse`: its ops in order, the values between them, and
// the additional memory that each op needed. It is the same for every micro-batch of the same shapes, with any
// policies; only autocast's casts and the memory figures may differ.
//
//     for (const RecordedOp& op : rehearse(profile, program).program.ops) fmt::print("{} {}\n", op.path, op.name);
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/array.hpp>
#include <headroom/core/op.hpp>

namespace headroom {

/// A value that an op produced or that came from outside, such as a parameter or a batch.
struct RecordedValue {
    static constexpr std::uint32_t kNone = ~0u;

    Geometry geometry;
    Dtype dtype = Dtype::f32;
    std::size_t bytes = 0;           ///< size of its block, after the allocator's rounding
    std::uint32_t producer = kNone;  ///< index of the op that made it; kNone: from outside
    bool is_parameter = false;
    /// The number of ops recorded before the program released its last handle to it; kNone: it was still held when
    /// backward began.
    std::uint32_t let_go = kNone;
};

/// A value as an op's input.
struct RecordedInput {
    std::uint32_t value = RecordedValue::kNone;  ///< kNone: an optional input left out
    Geometry geometry;
};

/// Memory of an op's run, in bytes.
struct OpMemory {
    std::size_t others = 0;  ///< live at its start apart from the tape's values: parameters, gradients, batches
    std::size_t peak = 0;    ///< largest increase over the bytes live at its start, outputs included
};

struct RecordedOp {
    std::string path;        ///< path of the module whose call recorded it
    std::uint32_t call = 0;  ///< as `Candidate::call`
    std::uint32_t ordinal = 0;
    std::string name;
    bool is_cast = false;
    bool in_micro_batch = false;  ///< inside a `MicroBatchScope`: policies are asked about it
    bool differentiable = false;  ///< its backward ran
    std::vector<RecordedInput> inputs;
    std::vector<std::uint32_t> outputs;  ///< output values, then the values it made for its own backward
    /// Values that its backward reads. If the op is not differentiable because no loss depends on it: the values kept
    /// for it until backward begins.
    std::vector<std::uint32_t> saved;
    /// The input whose storage its output reuses if a plan drops that value; kNone: none.
    std::uint32_t overwrites = RecordedValue::kNone;
    std::uint32_t replays = 0;  ///< times that backward replayed it
    bool after_replay = false;  ///< its own backward ran right after ops were replayed for it
    Operations operations;      ///< of matrix products; 0 for other ops
    OpMemory forward, backward;
};

struct RecordedProgram {
    std::vector<RecordedOp> ops;
    std::vector<RecordedValue> values;

    /// Number of op replays in backward.
    std::uint64_t replays() const;
};

}  // namespace headroom
