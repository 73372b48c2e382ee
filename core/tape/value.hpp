#pragma once
// A value of the program: a leaf or the product of a recorded op. Its storage comes and goes with recomputation; its
// identity stays. Records refer to values by raw pointers and counts. Users hold values through `Tensor`.
//
//     Tensor y = gelu(x);     // y's value: users 1, refs 1 (its record), pins 0
//     Tensor z = mul(y, y);   // pins 2: saved twice for backward
#include <algorithm>
#include <cstdint>
#include <utility>

#include <headroom/core/array.hpp>

namespace headroom {

class Tape;
struct Record;
struct RecordInterval;
struct Value;

/// Allocates a parameter's values on first use, and its gradient when that arrives.
class ParameterStorage {
  public:
    virtual ~ParameterStorage() = default;
    virtual void materialize() = 0;
    /// Storage for the gradient of `parameter`, in its geometry, with indeterminate contents. Errors: OutOfMemory.
    virtual Array gradient_of(const Value& parameter) = 0;
    /// Called when backward has run all records that contribute to the gradient of `parameter`.
    virtual void gradient_complete(const Value& parameter) = 0;
};

/// The retention rule: storage is kept while
///     users || holds || (pins && (!recompute_region || (the record whose backward runs lies in it, and no long wait is
///     ahead))).
/// If a pinned value has lost its storage, the `needs_replay` of its producer is set, and that producer pins its own
/// inputs.
struct Value {
    Value(Array&& contents, Tape& owner) : array(std::move(contents)), tape(&owner) {}

    Array array;  ///< without gaps; geometry and dtype never change; the buffer is empty while evicted
    Array grad;   ///< undefined until a gradient arrives; then in array's geometry
    Tape* tape = nullptr;
    Record* producer = nullptr;                        ///< null for leaves
    const RecordInterval* recompute_region = nullptr;  ///< where a recomputed value is held; null: the value is kept
    ParameterStorage* storage = nullptr;               ///< for a parameter; null for everything else
    Value* cast = nullptr;                             ///< its half-precision cast, while that value exists
    Value* cast_of = nullptr;                          ///< for a cast: the value that was cast
    std::uint32_t cast_version = 0;                    ///< for a cast: `changes` of the source
    std::uint32_t version = 0;                         ///< for a parameter: its own changes, added to its storage's
    std::uint32_t awaited = 0;        ///< for a parameter, during backward: inputs of records still to run
    std::uint32_t users = 0;          ///< the user's handles
    std::uint32_t refs = 0;           ///< records that refer to it, its producer included
    std::uint32_t pins = 0;           ///< uses by backward, and as input of records that need replay
    std::uint32_t holds = 0;          ///< uses by the replay in progress
    std::uint32_t next_use = 0;       ///< 1 + index of the last record that saved it; 0: none
    std::uint32_t replays = 0;        ///< with a recompute region: the longest chain of ops replayed to make it again
    std::uint32_t drop_distance = 0;  ///< with a recompute region: `Answer::drop_distance`
    const char* consumed = nullptr;   ///< the op that made it, once its record is gone and gradients can't pass
    PathId consumed_path = 0;         ///< module path of that op
    bool requires_grad = false;
    bool retains_grad = false;  ///< keeps its gradient after backward: leaves, and after `retain_grad`
    bool reached = false;       ///< during backward: a gradient will arrive

    bool missing() const { return !array.buffer; }
    /// Grows with each in-place change. Parameters that share storage change one by one, or all at once.
    std::uint32_t changes() const { return array.buffer.version() + version; }
    /// True if an op's array is this value or a view of it: parameters share storage.
    bool contains(const Array& other) const {
        if (!array.buffer.same(other.buffer)) return false;
        const std::int64_t first = other.geometry.offset - array.geometry.offset;
        return !storage || (first >= 0 && first < std::max<std::int64_t>(array.numel(), 1));
    }
    /// The array that a handle or a slot sees: its geometry's offset counts from the start of `array`.
    Array seen(const Geometry& geometry) const {
        return {array.buffer, array.dtype, {geometry.shape, geometry.strides, geometry.offset + array.geometry.offset}};
    }
    /// True if a handle or slot sees all elements, in any order and shape. Counting is enough, because no view sees an
    /// element twice and a value has no gaps.
    bool whole(const Geometry& geometry) const { return geometry.shape.numel() == array.numel(); }
};

}  // namespace headroom
