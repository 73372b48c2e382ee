#pragma once
// A task without data, for tests of what is done with any.
//
//     class SlowTask final : public OneLayerTask { ... Batch batch() override { ...; return OneLayerTask::batch(); } };
#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/training/task.hpp>

namespace headroom::test {

class OneLayerTask : public training::Task {
  public:
    explicit OneLayerTask(Parameters& parameters)
        : context_(parameters.context()), model_(nn::Path(parameters), 2, 1) {}
    Batch batch() override { return {ones(context_, {1, 2}), ones(context_, {1})}; }
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), 1); }
    training::Validation validate(const training::Watch&) override { return {}; }
    std::int64_t validation_batches() const override { return 0; }
    std::int64_t batches_per_epoch() const override { return data::Sampler::kEndless; }
    files::CheckpointPart order() override { return order_; }

  protected:
    Context& context_;

  private:
    struct Order {
        StateDict state_dict() const { return {}; }
        void restore(const StateValues&) {}
    };
    nn::Linear model_;
    Order order_;
};

}  // namespace headroom::test
