#include <headroom/examples/models/task.hpp>

#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/training/endless_task.hpp>

namespace headroom::models {

namespace {

class ModelTask final : public training::EndlessTask {
  public:
    ModelTask(Parameters& parameters, Model model, const Sizes& sizes, bool whole_logits)
        : model_(std::move(model)), step_(model_.make(parameters, sizes)) {
        expect(step_.loss, "loss");
        if (!whole_logits) return;
        expect(step_.loss_of_whole_logits, "loss_of_whole_logits");
        step_.loss = step_.loss_of_whole_logits;
    }

    void recompute(const std::string& name) override {
        if (name.empty() || name == model_.ways.front().name || !model_.way(name).policies.empty()) return;
        expect(step_.checkpoint, "checkpoint");
        step_.checkpoint();
    }
    Batch batch() override { return step_.inputs; }
    Loss loss(const Batch& batch) override { return step_.loss(batch); }

  private:
    template <class Function>
    void expect(const Function& function, const char* field) const {
        if (!function)
            throw Error(fmt::format("the model {} made a step without {}; set Step::{}", model_.name, field, field));
    }

    Model model_;
    Step step_;
};

}  // namespace

training::MakeTask task_of(const Model& model, const Sizes& sizes, bool whole_logits) {
    if (model.task) return model.task;
    return [model, sizes, whole_logits](Parameters& parameters, std::int64_t batch) {
        Sizes of_batch = sizes;
        of_batch.batch = batch;
        return std::make_unique<ModelTask>(parameters, model, of_batch, whole_logits);
    };
}

training::TrainerOptions options_of(const Model& model, const Sizes& sizes, const std::string& dtype,
                                    const std::string& optimizer) {
    training::TrainerOptions options{
        .batch = sizes.batch, .steps = std::int64_t{1} << 40, .handle_signals = false, .print = false};
    options.optimizer = training::optimizer_named(optimizer);
    if (dtype != "f32") options.autocast = dtype == "f16" ? Dtype::f16 : Dtype::bf16;
    options.recomputes = model.ways;
    options.recompute = model.ways.front().name;
    return options;
}

}  // namespace headroom::models
