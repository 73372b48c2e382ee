#include <headroom/examples/models/training.hpp>

#include <algorithm>

#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/batch_norm.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/sgd.hpp>

namespace headroom::models {

namespace {

std::optional<Dtype> autocast_dtype(const std::string& dtype) {
    if (dtype == "bf16") return Dtype::bf16;
    if (dtype == "f16") return Dtype::f16;
    return std::nullopt;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, Parameters& parameters) {
    if (name == "adamw") return std::make_unique<optim::AdamW>(parameters);
    return std::make_unique<optim::Sgd>(parameters, optim::SgdOptions{.momentum = 0.9});
}

}  // namespace

Training::Training(Context& context, const Model& model, const Setup& setup)
    : context_(context),
      accumulate_(setup.accumulate),
      dtype_(autocast_dtype(setup.dtype)),
      parameters_(context),
      step_(model.make(parameters_, setup)),
      optimizer_(make_optimizer(setup.optimizer, parameters_)),
      accumulator_(parameters_, *optimizer_),
      micro_batch_(accumulator_.graph([this](const std::vector<Tensor>& inputs) {
          Autocast autocast(context_, dtype_);
          return step_.loss(inputs);
      })) {
    for (const auto& [pattern, policy] : setup.way.policies) context.policy(pattern, policy);
}

void Training::step() {
    for (std::int64_t i = 0; i < accumulate_; ++i) accumulator_.accumulate(micro_batch_, step_.inputs);
    accumulator_.step(1e-3);
}

bool take_steps(Context& dry, const Model& model, const Setup& setup) {
    Setup enough = setup;
    enough.accumulate = std::min<std::int64_t>(setup.accumulate, 3);
    Training training(dry, model, enough);
    for (Recurrence steps(dry); !steps.reached();) training.step();
    return nn::takes_batch_statistics(training.parameters());
}

}  // namespace headroom::models
