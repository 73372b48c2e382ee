#pragma once
// Stochastic gradient descent, with momentum (Sutskever et al. 2013, "On the importance of initialization and momentum
// in deep learning") or without, in PyTorch's form without dampening. Momentum keeps one array of state per parameter.
// For transformers AdamW needs less tuning, since the magnitudes of their gradients differ widely.
//
//     optim::Sgd optimizer(parameters, {.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
//     optim::GradientAccumulator accumulator(parameters, optimizer);
//     accumulator.accumulate([&] { return cross_entropy(model(images), labels); });
//     accumulator.step(0.1);
#include <memory>

#include <headroom/optim/optimizer.hpp>

namespace headroom::optim {

struct SgdOptions {
    double momentum = 0;
    /// For matrices, added to the gradient as an L2 penalty; 0 for vectors, unless a group sets it.
    double weight_decay = 0;
    bool nesterov = false;
    std::vector<ParameterGroup> groups = {};
};

class Sgd : public Optimizer {
  public:
    /// With momentum, allocates "sgd.velocity.*". Errors: Error unless 0 <= momentum < 1 and weight_decay >= 0, or for
    /// Nesterov without momentum, and as Optimizer for groups; OutOfMemory.
    explicit Sgd(Parameters& parameters, const SgdOptions& options = {});
};

/// SGD as the rule of a parameter group in another optimizer. Errors: Error for numbers that `Sgd` rejects, or if
/// `options.groups` is not empty.
std::shared_ptr<const UpdateRule> sgd_rule(const SgdOptions& options = {});

}  // namespace headroom::optim
