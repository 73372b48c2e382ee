#pragma once
// A task with endless data that has no position, such as computed samples or one constant batch. There is no validation
// unless you override `validate`.
//
//     class Line final : public training::EndlessTask {
//       public:
//         Line(Parameters& parameters, std::int64_t batch) : model_(nn::Path(parameters), 2, 1), batch_(batch) {}
//         Batch batch() override { ... return {x, y}; }
//         Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1]); }
//         ...
//     };
#include <cstdint>

#include <headroom/data/sampler.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

class EndlessTask : public Task {
  public:
    Validation validate(const ProgressCallback&) override { return {}; }
    std::int64_t validation_batches() const override { return 0; }
    std::int64_t batches_per_epoch() const override { return data::Sampler::kEndless; }
    files::CheckpointPart order() override { return order_; }

  private:
    struct Order {
        StateDict state_dict() const { return {}; }
        void restore(const StateValues&) {}
    };
    Order order_;
};

}  // namespace headroom::training
