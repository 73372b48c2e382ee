#pragma once
// The memory that a recorded micro-batch would take if a plan decided about its ops, without running it: which values
// are there when each op runs, by the tape's own rules (core/tape/retention.cpp). Thousands of plans a second. What ops
// take besides is as it was recorded; so the figures are those of a rehearsal where the program was recorded under a
// policy, as all plans are, and no op takes memory that depends on what others left.
//
//     Simulation simulation(rehearsal.program);
//     const Simulated kept = simulation.run(std::vector<Answer>(rehearsal.program.ops.size()));
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <headroom/core/recorded_program.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom::plan {

struct Simulated {
    std::size_t peak = 0;       ///< allocated bytes
    std::uint32_t peak_op = 0;  ///< the op whose run, or whose backward, makes it
    bool peak_in_backward = false;
    std::vector<std::uint32_t> replays;  ///< of each op
    std::vector<bool> after_replay;      ///< of each op: as `RecordedOp::after_replay`
};

class Simulation {
  public:
    /// `program` must outlive it.
    explicit Simulation(const RecordedProgram& program);

    /// With an answer for each op: `inherit` is `keep`.
    const Simulated& run(std::span<const Answer> answers);
    /// Up to the moment before `op` runs, or runs backward. Then `kept` and `pinned` tell of the values at that moment.
    void run(std::span<const Answer> answers, std::uint32_t op, bool in_backward);
    /// True if the value was made by an op and is there for backward alone.
    bool kept(std::uint32_t value) const {
        const ValueState& its = values_[value];
        return its.producer != kNone && its.present && !its.held && its.pins > 0;
    }
    /// True if backward, or a replay, will want it.
    bool pinned(std::uint32_t value) const { return values_[value].pins > 0; }

  private:
    static constexpr std::uint32_t kNone = RecordedValue::kNone;

    struct ValueState {
        std::size_t bytes = 0;
        std::uint32_t producer = kNone;
        std::uint32_t pins = 0, holds = 0, next_use = 0, drop_distance = 0;
        bool present = false, held = false, has_recompute_region = false;
    };
    /// Numbers of values, for each op or moment: one array for all.
    class Lists {
      public:
        void append(std::vector<std::uint32_t> values);
        std::span<const std::uint32_t> operator[](std::size_t i) const {
            return {values_.data() + begins_[i], values_.data() + begins_[i + 1]};
        }
        std::size_t begin(std::size_t i) const { return begins_[i]; }
        std::size_t size() const { return values_.size(); }

      private:
        std::vector<std::uint32_t> values_;
        std::vector<std::size_t> begins_{0};
    };
    struct OpState {
        bool needs_replay = false, collected = false;
    };

    void begin();
    void run_forward(std::span<const Answer> answers, std::uint32_t end);
    void run_backward(std::uint32_t end);
    void forward(std::uint32_t op, const Answer& answer);
    void backward(std::uint32_t op);
    void note(std::size_t bytes, std::uint32_t op, bool in_backward);
    void set_present(ValueState& value, bool present);
    bool needed(const ValueState& value) const;
    bool stays(std::uint32_t value) const;
    void drop_if_unneeded(ValueState& value);
    void arm(std::uint32_t op);
    void disarm(std::uint32_t op);
    void disarm_if_done(std::uint32_t op);
    bool needs_last_of(std::uint32_t op) const;
    void unpin(ValueState& value);
    void materialize(std::uint32_t op);
    void replay(std::uint32_t op, std::uint32_t cursor);

    const RecordedProgram& program_;
    Lists inputs_, saved_, outputs_;      ///< of ops; without parameters
    Lists enter_;                         ///< values from outside that an op is the first to read
    Lists let_go_;                        ///< values that go when so many ops are recorded
    std::vector<std::uint32_t> earlier_;  ///< of each saved value: `next_use` before it
    std::vector<ValueState> initial_, values_;
    std::vector<OpState> ops_;
    std::vector<std::uint32_t> arm_stack_, worklist_, collected_;
    std::size_t live_ = 0;
    std::uint32_t records_ = 0;
    bool in_backward_ = false;
    Simulated result_;
};

}  // namespace headroom::plan
