#pragma once
// One recorded call of an op: enough to replay it and to run its backward once. Records, their attributes and slots are
// allocated in a stack-like arena, so recording allocates nothing in steady state.
//
//     record.op->forward(exec, record.attrs, inputs, outputs, saved);
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <headroom/core/op.hpp>
#include <headroom/core/tape/policy.hpp>
#include <headroom/core/tape/value.hpp>

namespace headroom {

/// A type-erased op. `forward` constructs the outputs and saved arrays in memory provided by the caller; if it throws,
/// it has constructed none.
struct OpTable {
    OpInfo info;
    std::uint16_t n_outputs;
    std::uint16_t n_saved;
    std::uint32_t attrs_bytes;
    void (*forward)(Exec&, const void* attrs, std::span<const Array> inputs, Array* outputs, Array* saved);
    void (*backward)(Exec&, const void* attrs, Array* saved, Array* dy, GradSink);  ///< null: no gradient
    /// `made`: outputs, then the op's own saved arrays. An input that was left out has the shape []. Null: the op is
    /// bound by memory traffic.
    Operations (*operations)(const void* attrs, std::span<const Shape> inputs, std::span<const Shape> made);
};

/// Consecutive records from `first` up to, not including, `end`.
struct RecordInterval {
    static constexpr std::uint32_t kNone = ~0u;

    std::uint32_t first = 0;
    std::uint32_t end = kNone;  ///< kNone: still growing

    bool contains(std::uint32_t record) const { return first <= record && record < end; }
};

/// A module's call, or any other part of the program that has a path.
struct TapeRegion {
    TapeRegion* parent = nullptr;
    TapeRegion* deciding = nullptr;  ///< the innermost region with a policy, among this one and its ancestors
    const Policy* policy = nullptr;
    PathId path = 0;
    std::uint32_t call = 0;  ///< number of this call among the regions with this path, since the tape was empty
    std::uint32_t ops = 0;   ///< ops recorded directly in it, without inner regions and casts
    RecordInterval records;

    bool open() const { return records.end == RecordInterval::kNone; }
};

/// A record's reference to a value.
struct Slot {
    Value* value = nullptr;  ///< null: an optional input left out
    Geometry geometry;
    std::uint32_t version = 0;  ///< for a leaf: `changes` at the time of recording
    std::uint32_t earlier = 0;  ///< if saved: the value's `next_use` without this record
};

/// A record of a call. Its arrays follow it in the same piece of memory.
struct alignas(std::max_align_t) Record {
    const OpTable* op = nullptr;
    void* attrs = nullptr;
    Slot* inputs = nullptr;
    Slot* saved = nullptr;
    Value** produced = nullptr;  ///< outputs, then saved arrays that are neither inputs nor outputs
    std::uint32_t n_inputs = 0;
    std::uint32_t index = 0;
    std::uint32_t ordinal = 0;  ///< `TapeRegion::ops` before this one
    TapeRegion* region = nullptr;
    PathId path = 0;
    unsigned gradients = 0;  ///< `Exec::Wanted::gradients` while recording, so that a replay computes the same bits
    std::uint16_t n_produced = 0;
    bool differentiable = false;  ///< backward will run: an input requires a gradient
    bool needs_replay = false;    ///< a replay may be needed: the inputs are pinned
    bool collected = false;       ///< part of the replay in progress
    std::size_t arena_chunk = 0;  ///< the arena's end before this record
    std::size_t arena_offset = 0;

    std::span<Slot> input_slots() const { return {inputs, n_inputs}; }
    std::span<Slot> saved_slots() const { return {saved, op->n_saved}; }
    std::span<Value*> values() const { return {produced, n_produced}; }
    std::span<Value*> outputs() const { return {produced, op->n_outputs}; }
};

/// Memory for records: it grows, is freed last in first out, and is reused by the next step.
class RecordArena {
  public:
    /// The result is aligned for every type. To free it, rewind to the position before the call.
    void* allocate(std::size_t bytes) {
        constexpr std::size_t unit = alignof(std::max_align_t);
        bytes = (bytes + unit - 1) / unit * unit;
        for (;; ++chunk_, offset_ = 0) {
            if (chunk_ == chunks_.size()) add_chunk(bytes);
            const std::size_t start = offset_;
            if (start + bytes > chunks_[chunk_].bytes) continue;
            offset_ += bytes;
            return chunks_[chunk_].memory.get() + start;
        }
    }
    std::size_t chunk() const { return chunk_; }
    std::size_t offset() const { return offset_; }
    void rewind(std::size_t chunk, std::size_t offset) {
        chunk_ = chunk;
        offset_ = offset;
    }

  private:
    struct Chunk {
        std::unique_ptr<std::byte[]> memory;
        std::size_t bytes;
    };
    void add_chunk(std::size_t at_least) {
        const std::size_t bytes = std::max(at_least, std::size_t{1} << 18);
        chunks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes});
    }
    std::vector<Chunk> chunks_;
    std::size_t chunk_ = 0;
    std::size_t offset_ = 0;
};

}  // namespace headroom
