#pragma once
// The numbers that decide about steps, in the device's memory: the step's loss and terms, the seed of backward, the
// loss scale, and the outcomes of the last steps, which the host reads when it likes (kernels/step_control).
//
//     StepLedger ledger(context, scale, /*kept=*/1, /*figures=*/{"accuracy"});
//     ledger.begin_micro_batch();
//     ledger.figure("accuracy", right);
//     ledger.add(loss, /*first=*/true);                 // for each micro-batch
//     tape.backward(loss.sum(), ledger.seed());
//     ledger.decide(clip, /*stop_when_diverged=*/false);  // from ledger.squared_gradients()
//     optimizer.update_all(ledger.multiplier());
//     ledger.end_step();
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/optim/loss_scale.hpp>
#include <headroom/optim/step_result.hpp>

namespace headroom::optim {

class StepLedger {
  public:
    /// `kept`: the number of steps whose outcomes are kept. Errors: Error for figures of one name; OutOfMemory.
    StepLedger(Context& context, LossScale scale, std::int64_t kept, std::vector<std::string> figures = {});

    /// Forgets what was told of a micro-batch that is not added.
    void begin_micro_batch();
    /// Tells a figure of the micro-batch that `add` or `add_round` adds next, with its own sum and terms. Errors: Error
    /// for another name.
    void figure(std::string_view name, const Loss& figure);
    /// Adds a micro-batch's sum and terms to those of the step; the first one decides what backward is seeded with.
    void add(const Loss& loss, bool first);
    /// The same with several ranks, for the round of micro-batches of which the first `present` ranks have one each:
    /// all ranks add those of all, in order. Null: this rank has none.
    void add_round(Group& group, const Loss* loss, bool first, int present);
    /// One f64 each: the seed of backward, the place for the gradients' squared norm, and the optimizer's multiplier.
    Array seed() const;
    Array squared_gradients() const;
    Array multiplier() const;
    /// Lets the device decide about the step, and write its outcome.
    void decide(double clip, bool stop_when_diverged);
    /// The host's count: what was queued so far is the step.
    void end_step();
    /// For a step that was given up, perhaps behind the device's count of it.
    void forget_step();

    std::int64_t steps() const { return steps_; }
    std::int64_t unread() const { return unread_; }
    /// See GradientAccumulator, which has these in public.
    StepResult result() const;
    std::vector<StepResult> results(std::int64_t leave);
    LossScale loss_scale() const;
    void set_loss_scale(const LossScale::State& now);

  private:
    void add(const Tensor& number, Array to, float beta) const;
    Array state(std::size_t field, const Shape& shape = {}) const;
    Array outcome(std::int64_t step) const;
    int rank() const { return context_.group() ? context_.group()->rank() : 0; }
    Array of_round(int rank, std::int64_t first, std::int64_t count) const;
    void put(const Loss& loss, std::int64_t first);
    void add_figures(int rank, float beta);
    void read_figures(std::int64_t first_step, std::vector<StepResult>& results) const;
    std::vector<double> download_outcomes(const Array& outcomes, std::int64_t last_step) const;
    StepResult read(const double* outcome) const;
    std::size_t place(std::int64_t step) const { return static_cast<std::size_t>(step % kept_); }

    Context& context_;
    LossScale scale_;
    std::int64_t kept_;
    Array state_;                       ///< f64: kernels::StepState
    Array outcomes_;                    ///< f64 [kept, ...]: kernels::StepOutcome of step i in row i % kept
    std::vector<std::string> figures_;  ///< names
    /// f64 [ranks, 2 + 2 * figures]: sum and terms of each rank's micro-batch, then those of its figures. Alone there
    /// is a row for figures only.
    Array rounds_;
    Array figure_sums_;               ///< f64 [2 * figures]: of the step
    Array figure_outcomes_;           ///< f64 [kept, 2 * figures]: of step i in row i % kept
    std::vector<WorkPoint> decided_;  ///< step i's outcome is there: entry i % kept
    std::int64_t steps_ = 0;          ///< that have ended, skipped ones too
    std::int64_t unread_ = 0;
};

}  // namespace headroom::optim
