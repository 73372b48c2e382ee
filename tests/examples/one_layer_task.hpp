#pragma once
// A task without data, for tests of what programs do with any.
//
//     class SlowTask final : public OneLayerTask { ... Batch batch() override { ...; return OneLayerTask::batch(); } };
#include <nlohmann/json.hpp>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/examples/program/task.hpp>
#include <headroom/nn/linear.hpp>

namespace headroom::program {

class OneLayerTask : public Task {
  public:
    explicit OneLayerTask(Parameters& parameters)
        : context_(parameters.context()), model_(nn::Path(parameters), 2, 1) {}
    Batch batch() override { return {ones(context_, {1, 2}), ones(context_, {1})}; }
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), 1); }
    Validation evaluate(const Watch&) override { return {}; }
    std::int64_t validation_batches() const override { return 0; }
    nn::CheckpointPart order() override { return order_; }
    nlohmann::json describe() const override { return nlohmann::json::object(); }

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

}  // namespace headroom::program
