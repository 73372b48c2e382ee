#pragma once
// An exponential moving average of a model's weights, which often evaluates better than the weights themselves (Polyak
// and Juditsky 1992). PyTorch's AveragedModel with get_ema_multi_avg_fn: the first update copies the weights, each
// later one moves the average to them by 1 - decay; buffers are the model's. It takes as much memory as the parameters.
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
    /// Begins as a copy of the parameters; it initialises them if they have no values yet. The parameters must outlive
    /// it. Errors: Error unless decay is in [0, 1); OutOfMemory.
    explicit MovingAverage(Parameters& parameters, MovingAverageOptions options = {});
    MovingAverage(const MovingAverage&) = delete;
    MovingAverage& operator=(const MovingAverage&) = delete;

    /// Call it after each step, also after a skipped one, since the host does not know that it was skipped. Only queues
    /// work. Errors: Error inside of `evaluate`.
    void update();

    /// Returns the result of `work`, which sees the averages in place of the weights, to evaluate or save them. The
    /// weights are back when it returns or throws. Inside of it, a step or anything else that would write to the
    /// weights is refused, and so is a backward pass of earlier records. Workspace: some MB. Errors: those of `work`;
    /// Error inside of another `evaluate`; OutOfMemory. If the device fails during the exchange, or on the way back,
    /// weights and averages are mixed, and steps, updates and loading stay refused: build the model again.
    template <std::invocable Work>
    decltype(auto) evaluate(Work&& work) {
        const Exchange exchange(*this);
        return work();
    }

    /// The number of updates.
    std::int64_t updates() const { return updates_; }

    /// Arrays "average.<path of the parameter>" and the value "average.updates"; the name of the parameters, if they
    /// have one, follows "average". Errors: Error inside of `evaluate`.
    StateDict state_dict() const;
    /// Errors: Error if the number is missing or negative.
    void restore(const StateValues& values);

  private:
    /// The averages are the model's weights while this lives.
    class Exchange {
      public:
        explicit Exchange(MovingAverage& average);
        ~Exchange();
        Exchange(const Exchange&) = delete;
        Exchange& operator=(const Exchange&) = delete;

      private:
        MovingAverage& average_;
        Scratch scratch_;  ///< for one piece; held, so that the way back allocates nothing
    };
    void exchange(const Scratch& scratch) const;
    std::string value_name() const;

    Parameters& parameters_;
    double decay_;
    std::int64_t updates_ = 0;
    Array values_;
};

}  // namespace headroom::optim
