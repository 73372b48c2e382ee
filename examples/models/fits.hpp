#pragma once
// What fits on which GPU: a model's training by each of its ways of recomputing and by plans, for GPUs of several
// sizes, as rehearsals say. Nothing is trained, and no GPU is needed. One search serves all GPUs that are equally fast.
//
//     fits::Question question{.gpus = {Profile::gpu(8'000'000'000), Profile::gpu(gpu_model("RTX 3090"))}};
//     const models::Model& gpt2 = models::named(models::all(), "gpt2");
//     for (const fits::Row& row : fits::rows_of(gpt2, question)) fmt::print("{} {}\n", row.method, row.floor_bytes);
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/examples/models/models.hpp>
#include <headroom/plan/plan.hpp>

namespace headroom::fits {

struct Question {
    std::vector<Profile> gpus;
    std::vector<std::string> methods = {};  ///< `RecomputeWay::name` or "plan"; empty: all
    models::Sizes sizes = models::kUsualSizes;
    std::string dtype = "f32", optimizer = "adamw";  ///< as `models::options_of` has them
    std::optional<bool> split_batch = {};            ///< as `TrainerOptions::split_batch`
    std::string largest = {};                        ///< "batch", "block" or "height": the size to find; empty: none
};

struct Row {
    std::string model, method;
    std::string gpu = {};        ///< its name; empty: known by its memory alone
    std::size_t gpu_memory = 0;  ///< bytes, of which a training may take `usable_bytes`
    std::size_t usable_bytes = 0;
    std::optional<plan::Plan> plan;            ///< empty: it does not fit; by hand, without a policy and ops
    std::size_t floor_bytes = 0;               ///< the least memory that the method needs: by hand, the only
    std::optional<std::int64_t> largest = {};  ///< that fits; empty: none does, or none was asked for
};

/// The methods of the question that the model has, in the order of the model's.
std::vector<std::string> methods_of(const models::Model& model, const Question& question);

/// Method by method, and of each the GPUs in the question's order. A plan may be of smaller micro-batches, but for the
/// largest batch, which is of one. Errors: those of the model for its sizes.
std::vector<Row> rows_of(const models::Model& model, const Question& question);

}  // namespace headroom::fits
