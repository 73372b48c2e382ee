#pragma once
// Measures how long the ops of a context's tape take, while it exists: forward, once more for backward, backward. On a
// GPU it waits for each op, so that a step takes longer than without it.
//
//     OpTimer timer(context);
//     train(context, 4);
//     for (const OpTimes& op : timer.take()) fmt::print("{} s\n", op.forward.front());
#include <chrono>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>

namespace headroom {

/// Of an op, in seconds: one figure for each time that it ran.
struct OpTimes {
    std::vector<double> forward = {};
    std::vector<double> replays = {};
    std::vector<double> backward = {};               ///< of what was kept since forward
    std::vector<double> backward_after_replay = {};  ///< right after ops ran again for it: their results are in caches
};

class OpTimer final : public TapeObserver {
  public:
    explicit OpTimer(Context& context) : context_(context) { context.tape().observe(this); }
    ~OpTimer() override { context_.tape().observe(nullptr); }
    OpTimer(const OpTimer&) = delete;
    OpTimer& operator=(const OpTimer&) = delete;

    /// What was measured since the last call: ops by their place in a micro-batch, as in the `RecordedProgram` of a
    /// rehearsal of it. Micro-batches count as repetitions of one.
    std::vector<OpTimes> take() { return std::exchange(ops_, {}); }

    void op_begins() override;
    void recorded(const Record& record) override;
    void replayed(const Record& record) override;
    void differentiated(const Record& record) override;
    void let_go(const Value&, std::size_t) override {}
    void backward_begins(std::span<Record* const> records) override;

  private:
    using Clock = std::chrono::steady_clock;
    void wait();
    double end();
    OpTimes& of(const Record& record);

    Context& context_;
    Clock::time_point begin_;
    bool replayed_ = false;        ///< since the last backward
    std::vector<double> forward_;  ///< of the ops that are recorded now; those that nobody wants leave the tape again
    std::vector<OpTimes> ops_;
};

}  // namespace headroom
