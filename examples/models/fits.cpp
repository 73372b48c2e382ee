#include <headroom/examples/models/fits.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <headroom/examples/models/task.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/largest.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::fits {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of a size that is looked for

using models::Model;
using models::Sizes;

/// What a method needs, and what it does with so much memory.
struct Needs {
    std::size_t floor_bytes = 0;
    std::function<std::optional<plan::Plan>(std::size_t memory)> fit;
};

Needs by_hand(const Profile& profile, const training::Trainer& trainer) {
    const training::Forecast forecast = trainer.rehearse(profile);
    const plan::Plan plan{.division = {.batch = trainer.options().batch},
                          .peak_bytes_allocated = forecast.peak.allocated,
                          .peak_bytes_reserved = forecast.peak.reserved,
                          .step_seconds = *forecast.step_seconds};
    return {plan.peak_bytes_reserved, [plan](std::size_t memory) {
                return plan.peak_bytes_reserved <= memory ? std::optional(plan) : std::nullopt;
            }};
}

Needs by_plan(const Profile& profile, const training::Trainer& trainer) {
    const std::shared_ptr<plan::Planner> planner = trainer.planner(profile);
    return {planner->floor_bytes(), [planner](std::size_t memory) {
                return planner->floor_bytes() <= memory ? std::optional(planner->fit(memory)) : std::nullopt;
            }};
}

/// A size of that name, which --largest looks for. Images keep their proportions.
Sizes resized(Sizes sizes, const std::string& name, std::int64_t value) {
    if (name == "batch") sizes.batch = value;
    if (name == "block") sizes.block = value;
    if (name == "height")
        sizes.width = std::max<std::int64_t>(1, value * sizes.width / std::exchange(sizes.height, value));
    return sizes;
}

}  // namespace

std::vector<std::string> methods_of(const Model& model, const Question& question) {
    std::vector<std::string> methods;
    for (const nn::RecomputeWay& way : model.ways) methods.push_back(way.name);
    methods.emplace_back("plan");
    std::erase_if(methods, [&](const std::string& method) {
        return !question.methods.empty() && std::ranges::find(question.methods, method) == question.methods.end();
    });
    return methods;
}

namespace {

/// A method of a model on GPUs that are equally fast, whatever their memory.
class Method {
  public:
    Method(const Model& model, const Question& question, std::string name, const Profile& gpu)
        : model_(model),
          question_(question),
          name_(std::move(name)),
          gpu_(gpu.endless()),
          sizes_(model.completed(question.sizes)),
          needs_(needs_of(sizes_, question.split_batch)) {}

    bool is_for(const Profile& gpu) const {
        return gpu.model.rates == gpu_.model.rates && gpu.model.capability == gpu_.model.capability;
    }
    Row row(const Profile& gpu) {
        const std::size_t usable = gpu.usable_bytes();
        Row row{.model = {},
                .method = name_,
                .gpu = gpu.model.name == Profile::gpu(0).model.name ? "" : gpu.model.name,
                .gpu_memory = gpu.memory.total_bytes,
                .usable_bytes = usable,
                .plan = needs_.fit(usable),
                .floor_bytes = needs_.floor_bytes};
        if (!question_.largest.empty()) {
            row.largest = plan::largest_size(question_.largest == "height" ? 32 : 1, kMost,
                                             [&](std::int64_t size) -> std::optional<bool> {
                                                 const std::optional<std::size_t> floor = floor_of(size);
                                                 if (!floor) return {};
                                                 return *floor <= usable;
                                             });
        }
        return row;
    }

  private:
    Needs needs_of(const Sizes& asked, std::optional<bool> split_batch) const {
        training::TrainerOptions options = models::options_of(model_, asked, question_.dtype, question_.optimizer);
        options.split_batch = split_batch;
        if (name_ != "plan") options.recompute = name_;
        const training::Trainer trainer(models::task_of(model_, asked), std::move(options));
        return name_ == "plan" ? by_plan(gpu_, trainer) : by_hand(gpu_, trainer);
    }
    /// None for a batch of few samples that is refused. A task may refuse more than its data has: without end.
    std::optional<std::size_t> floor_of(std::int64_t size) {
        if (const auto known = floors_.find(size); known != floors_.end()) return known->second;
        const bool of_batch = question_.largest == "batch";
        try {
            const auto split_batch = of_batch ? std::optional(false) : question_.split_batch;
            return floors_[size] = needs_of(resized(sizes_, question_.largest, size), split_batch).floor_bytes;
        } catch (const Error&) {
            if (!of_batch || size == sizes_.batch || (size > sizes_.batch && !model_.task)) throw;
            return floors_[size] = size < sizes_.batch ? std::nullopt : std::optional(SIZE_MAX);
        }
    }

    const Model& model_;
    const Question& question_;
    std::string name_;
    Profile gpu_;
    Sizes sizes_;
    Needs needs_;
    std::map<std::int64_t, std::optional<std::size_t>> floors_;  ///< by the size that is looked for
};

}  // namespace

std::vector<Row> rows_of(const Model& model, const Question& question) {
    std::vector<Row> rows;
    for (const std::string& method : methods_of(model, question)) {
        std::list<Method> known;
        for (const Profile& gpu : question.gpus) {
            auto found = std::ranges::find_if(known, [&](const Method& one) { return one.is_for(gpu); });
            if (found == known.end()) found = known.emplace(known.end(), model, question, method, gpu);
            rows.push_back(found->row(gpu));
            rows.back().model = model.name;
        }
    }
    return rows;
}

}  // namespace headroom::fits
