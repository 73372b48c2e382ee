#pragma once
// Times the ops of a context's tape during its lifetime: forward, replay and backward. On a GPU it waits for each op,
// which slows the step down.
//
//     OpTimer timer(context);
//     train(context, 4);
//     for (const OpTimes& op : timer.take()) fmt::print("{} s\n", op.forward.front());
#include <chrono>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>

namespace headroom {

/// One op's timings in seconds, one entry per run.
struct OpTimes {
    std::vector<double> forward = {};
    std::vector<double> replays = {};
    std::vector<double> backward = {};  ///< from values kept since forward
    /// Runs of backward right after ops were replayed for it, whose results are then in caches.
    std::vector<double> backward_after_replay = {};
};

class OpTimer final : public TapeObserver {
  public:
    explicit OpTimer(Context& context) : context_(context) { context.tape().observe(this); }
    ~OpTimer() override { context_.tape().observe(nullptr); }
    OpTimer(const OpTimer&) = delete;
    OpTimer& operator=(const OpTimer&) = delete;

    /// Timings since the last call, indexed by the op's place in a micro-batch, as in the `RecordedProgram` of its
    /// rehearsal. All micro-batches count as repetitions of the same one.
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
    bool replayed_ = false;        ///< an op was replayed since the last backward
    std::vector<double> forward_;  ///< by record; a dropped record's entry is overwritten
    std::vector<OpTimes> ops_;
};

}  // namespace headroom
