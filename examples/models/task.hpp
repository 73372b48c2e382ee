#pragma once
// A model of examples/models/models.hpp as a task of a `training::Trainer`, which plans, calibrates, rehearses, trains
// and reports.
//
//     training::Trainer trainer(models::task_of(model, sizes), models::options_of(model, sizes, "f32", "adamw"));
//     const training::Forecast forecast = trainer.rehearse(profile);
#include <string>

#include <headroom/examples/models/models.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/task.hpp>

namespace headroom::models {

/// The model's own task, or one that has the inputs of `Model::make` in each micro-batch, and no validation.
/// `whole_logits`: the loss computes the logits of all tokens at once, where the model's own takes chunks of them.
/// Makes Error that names the model where its step lacks a function.
training::MakeTask task_of(const Model& model, const Sizes& sizes, bool whole_logits = false);

/// Of a training that keeps all, by any of the model's ways and as long as one likes, and says nothing. `dtype`: f32,
/// or bf16 or f16, of autocast. `optimizer`: adamw, or sgd with momentum.
training::TrainerOptions options_of(const Model& model, const Sizes& sizes, const std::string& dtype,
                                    const std::string& optimizer);

}  // namespace headroom::models
