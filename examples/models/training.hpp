#pragma once
// Training steps of a model of examples/models/models.hpp, on a real context or in a rehearsal: forward, all gradients,
// the optimizer.
//
//     models::Training training(context, models::all().at("gpt2"), setup);
//     training.step();
//     const Rehearsal rehearsal = rehearse(profile, [&](Context& dry) { models::take_steps(dry, model, setup); });
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <headroom/core/context.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/examples/models/models.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/optimizer.hpp>

namespace headroom::models {

class Training {
  public:
    /// Sets the policies of the setup's way. Errors: those of the model for its sizes.
    Training(Context& context, const Model& model, const Setup& setup);

    /// All micro-batches have the same data. Only queues work.
    void step();
    /// Waits for the device.
    double loss() const { return accumulator_.result().loss; }
    const Parameters& parameters() const { return parameters_; }
    std::string graph_refusal() const { return accumulator_.graph_refusal(); }

  private:
    Context& context_;
    std::int64_t accumulate_;
    std::optional<Dtype> dtype_;
    Parameters parameters_;
    Step step_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    optim::GradientAccumulator accumulator_;
    optim::GraphedWork micro_batch_;
};

/// What a rehearsal of such a training runs, as docs/memory.md asks. True if a layer normalises by the statistics of
/// its micro-batch.
bool take_steps(Context& dry, const Model& model, const Setup& setup);

}  // namespace headroom::models
