#pragma once
// Simulates the memory of a recorded micro-batch under a plan without running it: which values exist when each op runs,
// by the tape's own rules (core/tape/retention.cpp). Simulates thousands of plans per second. Scratch and other memory
// of ops is taken as recorded. The peak equals a rehearsal's if the program was recorded under a policy, as it is for
// plans, and if no op's memory depends on what other ops left behind.
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
    std::uint32_t peak_op = 0;  ///< the op that reaches it, in forward or backward
    bool peak_in_backward = false;
    std::vector<std::uint32_t> replays;  ///< for each op
    std::vector<bool> after_replay;      ///< for each op: as `RecordedOp::after_replay`
};

class Simulation {
  public:
    /// `program` must outlive it.
    explicit Simulation(const RecordedProgram& program);

    /// Simulates a step with one answer per op; `inherit` means `keep`.
    const Simulated& run(std::span<const Answer> answers);
    /// Simulates up to the moment before `op` runs forward, or backward. `kept` and `pinned` then describe the values
    /// at that moment.
    void run(std::span<const Answer> answers, std::uint32_t op, bool in_backward);
    /// True if an op made the value and only backward keeps it.
    bool kept(std::uint32_t value) const {
        const ValueState& its = values_[value];
        return its.producer != kNone && its.present && !its.held && its.pins > 0;
    }
    /// True if backward or a replay will need the value.
    bool pinned(std::uint32_t value) const { return values_[value].pins > 0; }

  private:
    static constexpr std::uint32_t kNone = RecordedValue::kNone;

    struct ValueState {
        std::size_t bytes = 0;
        std::uint32_t producer = kNone;
        std::uint32_t pins = 0, holds = 0, next_use = 0, drop_distance = 0;
        bool present = false, held = false, has_recompute_region = false;
    };
    /// Lists of value indices, one for each op or moment, in one array.
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
    Lists inputs_, saved_, outputs_;      ///< by op, without parameters
    Lists enter_;                         ///< by op: values from outside that it is the first to read
    Lists let_go_;                        ///< by number of recorded ops: values that are then released
    std::vector<std::uint32_t> earlier_;  ///< for each saved value: its `next_use` before
    std::vector<ValueState> initial_, values_;
    std::vector<OpState> ops_;
    std::vector<std::uint32_t> arm_stack_, worklist_, collected_;
    std::size_t live_ = 0;
    std::uint32_t records_ = 0;
    bool in_backward_ = false;
    Simulated result_;
};

}  // namespace headroom::plan
