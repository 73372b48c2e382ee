#pragma once
// What ways to save memory cost and save, for one model and one effective batch: each is trained for some steps, in
// turn. Named as guides to saving GPU memory name them.
//
//     techniques::Question question{.model = "gpt2", .sizes = models::all().at("gpt2").sizes};
//     for (const techniques::Row& row : techniques::compared(question, make_context)) fmt::print("{}\n", row.name);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/examples/models/models.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::techniques {

/// Of all techniques, the order in which they are compared.
std::vector<std::string> names();

struct Question {
    std::string model;
    models::Sizes sizes = models::kUsualSizes;       ///< `batch`: the effective one, of a step
    std::string dtype = "f32", optimizer = "adamw";  ///< of all that do not change them
    std::vector<std::string> techniques = {};        ///< of `names`; empty: all
    std::int64_t budgets = 4;                        ///< for which plans are made, from the least to keeping all
    std::int64_t steps = 5;                          ///< that are timed in a round, behind the first ones
    std::int64_t rounds = 3;                         ///< in each of which all are trained once
};

/// A way to train, and what came of it.
struct Row {
    std::string technique, name;
    std::string dtype, optimizer;
    training::TrainerOptions options = {};  ///< as they were trained: with the plan's micro-batch, if there is one
    ComputeOptions compute = {};
    std::size_t budget = 0;  ///< of a plan; 0: there is none
    training::Forecast forecast = {};
    std::string refused = {};  ///< why there is nothing else

    std::size_t peak_bytes_allocated = 0, peak_bytes_reserved = 0;  ///< measured
    std::vector<double> step_seconds = {};                          ///< a round's median each
    double loss = 0;                                                ///< of the last step
    std::optional<bool> same_bits =
        {};  ///< as keeping all with the same micro-batch and arithmetic, if that was trained
    std::uint64_t replayed_ops = 0;
    std::uint64_t driver_calls = 0;  ///< of the allocator
    std::optional<std::size_t> used = {};
    std::string state_sha256 = {};
};

using MakeContext = std::function<Context(const ComputeOptions&)>;

/// Only what rehearsals know. Errors: those of the model for its sizes; Error if it has no such technique.
std::vector<Row> rehearsed(const Question& question, const Profile& profile);
/// Measures on contexts that are made for each training. Plans go by times that were measured at the beginning.
/// `watch` is told what is trained. Errors: as `rehearsed`.
std::vector<Row> compared(const Question& question, const MakeContext& make_context,
                          const std::function<void(const Row&, std::int64_t round)>& watch = {});

}  // namespace headroom::techniques
