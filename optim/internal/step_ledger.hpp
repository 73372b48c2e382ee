#pragma once
// Step control in device memory (kernels/step_control): the step's loss and terms, the seed of backward, the loss
// scale, and the outcomes of the last steps, which the host may read later.
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
    /// `kept`: the number of steps whose outcomes are kept. Errors: Error for duplicate names of figures; OutOfMemory.
    StepLedger(Context& context, LossScale scale, std::int64_t kept, std::vector<std::string> figures = {});

    /// Drops the figures of a micro-batch that was not added.
    void begin_micro_batch();
    /// Sets a figure, with its own sum and terms, of the micro-batch that `add` or `add_round` adds next. Errors: Error
    /// for an unknown name.
    void figure(std::string_view name, const Loss& figure);
    /// Adds a micro-batch's sum and terms to those of the step; the first one determines the seed of backward.
    void add(const Loss& loss, bool first);
    /// As `add` with several ranks, for a round in which the first `present` ranks have one micro-batch each: every
    /// rank adds the sums of all, in rank order. `loss` is null on a rank without a micro-batch.
    void add_round(Group& group, const Loss* loss, bool first, int present);
    /// One f64 each: the seed of backward, the output for the gradients' squared norm, and the optimizer's multiplier.
    Array seed() const;
    Array squared_gradients() const;
    Array multiplier() const;
    /// Queues the device's decision about the step, which writes its outcome.
    void decide(double clip, bool stop_when_diverged);
    /// Counts the step on the host: the work queued so far belongs to it.
    void end_step();
    /// Undoes an abandoned step, which the device may have counted already.
    void forget_step();

    std::int64_t steps() const { return steps_; }
    std::int64_t unread() const { return unread_; }
    /// See GradientAccumulator, which exposes these.
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
    /// f64 [ranks, 2 + 2 * figures]: sum and terms of each rank's micro-batch, then those of its figures. With one
    /// process there is a row only if there are figures.
    Array rounds_;
    Array figure_sums_;               ///< f64 [2 * figures]: of the step
    Array figure_outcomes_;           ///< f64 [kept, 2 * figures]: of step i in row i % kept
    std::vector<WorkPoint> decided_;  ///< when step i's outcome is written: entry i % kept
    std::int64_t steps_ = 0;          ///< ended steps, including skipped ones
    std::int64_t unread_ = 0;
};

}  // namespace headroom::optim
