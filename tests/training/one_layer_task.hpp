#pragma once
// A task without data, for tests of what is done with any.
//
//     class SlowTask final : public OneLayerTask { ... Batch batch() override { ...; return OneLayerTask::batch(); } };
#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/training/endless_task.hpp>

namespace headroom::test {

class OneLayerTask : public training::EndlessTask {
  public:
    explicit OneLayerTask(Parameters& parameters)
        : context_(parameters.context()), model_(nn::Path(parameters), 2, 1) {}
    Batch batch() override { return {ones(context_, {1, 2}), ones(context_, {1})}; }
    void divide(const data::DataShard&) override {}  // all batches are alike
    Loss loss(const Batch& batch) override { return Loss(sum(model_(batch[0])), 1); }

  protected:
    Context& context_;

  private:
    nn::Linear model_;
};

}  // namespace headroom::test
