#pragma once
// What a micro-batch recorded, as `rehearse` hands it out: the ops in their order, the values between them, and the
// memory that each op took besides. All of it is the same in every micro-batch of the same shapes, whatever policies
// say, but for casts, which autocast makes, and the figures of memory.
//
//     for (const RecordedOp& op : rehearse(profile, program).program.ops) fmt::print("{} {}\n", op.path, op.name);
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/array.hpp>
#include <headroom/core/op.hpp>

namespace headroom {

/// A value that an op made, or that entered from outside: a parameter, a batch.
struct RecordedValue {
    static constexpr std::uint32_t kNone = ~0u;

    Geometry geometry;
    Dtype dtype = Dtype::f32;
    std::size_t bytes = 0;           ///< of its block, as the allocator rounds it
    std::uint32_t producer = kNone;  ///< the number of the op that made it; kNone: from outside
    bool is_parameter = false;
    /// The number of ops that were recorded before the program let go of it; kNone: it still had it when backward
    /// began.
    std::uint32_t let_go = kNone;
};

/// A value as an op reads it.
struct RecordedInput {
    std::uint32_t value = RecordedValue::kNone;  ///< kNone: an optional input that was left out
    Geometry geometry;
};

/// Bytes while an op runs.
struct OpMemory {
    std::size_t others = 0;  ///< live when it begins, beside values of the tape: parameters, gradients, batches
    std::size_t peak = 0;    ///< the most that it adds to what is live when it begins, its outputs included
};

struct RecordedOp {
    std::string path;        ///< of the module whose call recorded it
    std::uint32_t call = 0;  ///< as `Candidate::call`
    std::uint32_t ordinal = 0;
    std::string name;
    bool is_cast = false;
    bool in_micro_batch = false;  ///< in a `MicroBatchScope`: policies are asked about it
    bool differentiable = false;  ///< it has run backward
    std::vector<RecordedInput> inputs;
    std::vector<std::uint32_t> outputs;  ///< values, then the ones that it made for its own backward
    /// Values that its backward reads. Of one that is not differentiable, as no loss depends on it: that are kept for
    /// it until backward begins.
    std::vector<std::uint32_t> saved;
    /// The input whose storage its output takes over where a plan drops that value; kNone: none.
    std::uint32_t overwrites = RecordedValue::kNone;
    std::uint32_t replays = 0;  ///< how often backward ran it again
    bool after_replay = false;  ///< its own backward came right after ops that ran again for it
    Operations operations;      ///< of its products; 0 for the others
    OpMemory forward, backward;
};

struct RecordedProgram {
    std::vector<RecordedOp> ops;
    std::vector<RecordedValue> values;

    /// How often backward ran ops again.
    std::uint64_t replays() const;
};

}  // namespace headroom
