#pragma once
// Switches a model to evaluation, and restores its mode and the tape's recording when the scope ends, also after an
// exception.
//
//     const EvaluationScope evaluation(parameters);
//     Tensor logits = model(x);
#include <headroom/core/context.hpp>
#include <headroom/core/parameters.hpp>

namespace headroom {

/// In its scope, modules are in evaluation mode, as after `train(false)`, and nothing is recorded.
class EvaluationScope {
  public:
    explicit EvaluationScope(Parameters& parameters)
        : guard_(parameters.context()), parameters_(parameters), before_(parameters.training()) {
        parameters.train(false);
    }
    ~EvaluationScope() { parameters_.train(before_); }
    EvaluationScope(const EvaluationScope&) = delete;
    EvaluationScope& operator=(const EvaluationScope&) = delete;

  private:
    NoGradGuard guard_;
    Parameters& parameters_;
    bool before_;
};

}  // namespace headroom
