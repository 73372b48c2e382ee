#pragma once
// AdamW: Adam (Kingma and Ba 2014, arXiv:1412.6980) with decoupled weight decay (Loshchilov and Hutter 2019,
// arXiv:1711.05101), in PyTorch's form. Keeps two moments per trained parameter, in the parameter's dtype. To save
// memory, use SGD, which keeps one array or none.
//
//     optim::AdamW optimizer(parameters, {.beta2 = 0.99, .weight_decay = 0.1});
//     optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
//     accumulator.accumulate([&] { return model.loss(tokens, targets); });
//     accumulator.step(1e-3);
#include <memory>

#include <headroom/optim/optimizer.hpp>

namespace headroom::optim {

struct AdamWOptions {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;  ///< for matrices; 0 for vectors, unless a group sets it
    std::vector<ParameterGroup> groups = {};
};

class AdamW : public Optimizer {
  public:
    /// Allocates the moments: "adamw.first_moment.*", "adamw.second_moment.*". Errors: Error unless 0 <= beta < 1,
    /// epsilon > 0 and weight_decay >= 0, and as Optimizer for groups; OutOfMemory.
    explicit AdamW(Parameters& parameters, const AdamWOptions& options = {});
};

/// AdamW as the rule of a parameter group in another optimizer. Errors: Error for numbers that `AdamW` rejects, or if
/// `options.groups` is not empty.
std::shared_ptr<const UpdateRule> adamw_rule(const AdamWOptions& options = {});

}  // namespace headroom::optim
