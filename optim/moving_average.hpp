#pragma once
// An exponential moving average of a model's weights, which often evaluates better than the weights themselves (Polyak
// and Juditsky 1992). As in PyTorch's AveragedModel with get_ema_multi_avg_fn, the first update copies the weights, and
// each later update moves the average by the fraction 1 - decay towards them. Buffers are not averaged. Takes as much
// memory as the parameters.
//
//     optim::MovingAverage average(parameters, {.decay = 0.999});
//     accumulator.step(1e-3);
//     average.update();                                                       // after each step
//     const double share = average.evaluate([&] { return accuracy(model, points); });
//     files::save_checkpoint(path, context, {parameters, optimizer, accumulator, average});
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

struct MovingAverageOptions {
    double decay = 0.999;
};

class MovingAverage {
  public:
    /// Starts as a copy of the parameters, whose values are allocated and initialised if they are not yet. The
    /// parameters must outlive it. Errors: Error unless decay is in [0, 1); OutOfMemory.
    explicit MovingAverage(Parameters& parameters, MovingAverageOptions options = {});
    MovingAverage(const MovingAverage&) = delete;
    MovingAverage& operator=(const MovingAverage&) = delete;

    /// Queues an update. Call it after each step, including skipped steps, since the host does not know which steps
    /// were skipped. Errors: Error inside of `evaluate`.
    void update();

    /// Runs `work` with the averages in place of the weights, to evaluate or save them, and returns its result. The
    /// weights are restored when `work` returns or throws. Within `work`, steps and other writes to the weights are
    /// refused, and so is backward through ops that were recorded earlier. Workspace: a few MB. Errors: whatever `work`
    /// throws; Error within another `evaluate`; OutOfMemory. If the device fails during a swap, weights and averages
    /// are mixed. Steps, updates and loading are then refused, and the model must be built again.
    template <std::invocable Work>
    decltype(auto) evaluate(Work&& work) {
        const Exchange exchange(*this);
        return work();
    }

    /// The number of updates.
    std::int64_t updates() const { return updates_; }

    /// Arrays "average.<path of the parameter>" and the value "average.updates"; if the parameters have a name, that
    /// name follows "average". Errors: Error inside of `evaluate`.
    StateDict state_dict() const;
    /// Errors: Error if the value is missing or negative.
    void restore(const StateValues& values);

  private:
    /// Swaps weights and averages for its lifetime.
    class Exchange {
      public:
        explicit Exchange(MovingAverage& average);
        ~Exchange();
        Exchange(const Exchange&) = delete;
        Exchange& operator=(const Exchange&) = delete;

      private:
        MovingAverage& average_;
        Scratch scratch_;  ///< for one chunk; kept until the swap back, which thus allocates nothing
    };
    void exchange(const Scratch& scratch) const;
    std::string value_name() const;

    Parameters& parameters_;
    double decay_;
    std::int64_t updates_ = 0;
    Array values_;
};

}  // namespace headroom::optim
