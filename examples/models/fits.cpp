#include <headroom/examples/models/fits.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <headroom/examples/models/task.hpp>
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
    for (const models::Way& way : model.ways) methods.push_back(way.name);
    methods.emplace_back("plan");
    std::erase_if(methods, [&](const std::string& method) {
        return !question.methods.empty() && std::ranges::find(question.methods, method) == question.methods.end();
    });
    return methods;
}

std::vector<Row> rows_of(const std::string& name, const Question& question) {
    const Model& model = models::all().at(name);
    const Profile profile = Profile::gpu(0).endless();
    const Sizes sizes = model.completed(question.sizes);
    std::vector<Row> rows;
    for (const std::string& method : methods_of(model, question)) {
        const auto needs_of = [&](const Sizes& asked, std::optional<bool> split_batch) {
            training::TrainerOptions options = models::options_of(model, asked, question.dtype, question.optimizer);
            options.split_batch = split_batch;
            if (method != "plan") options.recompute = method;
            const training::Trainer trainer(models::task_of(model, asked), std::move(options));
            return method == "plan" ? by_plan(profile, trainer) : by_hand(profile, trainer);
        };
        std::map<std::int64_t, std::size_t> floors;  // by the size that is looked for
        const auto floor_of = [&](std::int64_t size) {
            if (const auto known = floors.find(size); known != floors.end()) return known->second;
            const auto split_batch = question.largest == "batch" ? std::optional(false) : question.split_batch;
            return floors[size] = needs_of(resized(sizes, question.largest, size), split_batch).floor_bytes;
        };
        const Needs needs = needs_of(sizes, question.split_batch);
        for (const std::size_t memory : question.memories) {
            Row& row = rows.emplace_back(Row{name, method, memory, needs.fit(memory), needs.floor_bytes});
            if (question.largest.empty()) continue;
            row.largest = plan::largest_size(question.largest == "height" ? 32 : 1, kMost,
                                             [&](std::int64_t size) { return floor_of(size) <= memory; });
        }
    }
    return rows;
}

}  // namespace headroom::fits
