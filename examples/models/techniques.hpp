#pragma once
// What ways to save memory cost and save, for one model and one effective batch: each is trained for some steps, in
// turn. Named as guides to saving GPU memory name them.
//
//     techniques::Question question{.model = models::named(models::all(), "gpt2"), .sizes = {.batch = 4, .block = 128}};
//     for (const techniques::Row& row : techniques::compared(question, make_context).rows) fmt::print("{}\n", row.name);
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
    models::Model model;
    models::Sizes sizes = models::kUsualSizes;       ///< `batch`: the effective one, of a step
    std::string dtype = "f32", optimizer = "adamw";  ///< of all that do not change them
    std::vector<std::string> techniques = {};        ///< of `names`; empty: all
    std::int64_t budgets = 4;                        ///< for which plans are made, from the least to keeping all
    std::int64_t steps = 5;                          ///< that are timed in a round, behind the first ones
    std::int64_t rounds = 3;                         ///< in each of which all are trained once
    /// Bytes that a plan is made for besides, in micro-batches if it does not fit otherwise, and the largest
    /// micro-batches are looked for; 0: nothing is.
    std::size_t within = 0;
};

/// A way to train, and what came of it.
struct Row {
    std::string technique, name;
    std::string dtype, optimizer;
    training::TrainerOptions options = {};  ///< as they were trained: with the plan's micro-batch, if there is one
    ComputeOptions compute = {};
    bool whole_logits = false;                 ///< as `models::task_of`
    std::size_t budget = 0;                    ///< of a plan; 0: there is none
    std::vector<std::string> peer = {};        ///< arguments of PyTorch's training; empty: it is Headroom's
    bool compiled = false;                     ///< PyTorch's, which takes minutes: trained in the first round alone
    training::Forecast forecast = {};          ///< Headroom's
    std::string refused = {};                  ///< why there is nothing else
    std::optional<std::int64_t> largest = {};  ///< micro-batch within `Question::within`; empty: none, or not asked for

    std::int64_t parameters = 0;
    /// Measured; 0: of PyTorch on a CPU, which reserves what it allocates.
    std::size_t peak_bytes_allocated = 0, peak_bytes_reserved = 0;
    std::vector<double> step_seconds = {};  ///< a round's median each
    double loss = 0;                        ///< of the last step
    std::optional<bool> same_bits =
        {};  ///< as keeping all with the same micro-batch and arithmetic, if that was trained
    training::StepCounts last_step = {};
    std::uint64_t driver_calls = 0;  ///< of the allocator
    std::optional<std::size_t> used = {};
    std::string state_sha256 = {};
};

/// A step of a larger batch, as predicted.
struct Larger {
    std::string machine, recompute;
    std::int64_t batch = 0;
    training::Forecast forecast = {};
};

struct Comparison {
    std::vector<Row> rows;
    std::vector<Larger> larger;  ///< up to 64 times the batch, here and on an H100 by its data sheet's rates
};

using MakeContext = std::function<Context(const ComputeOptions&)>;
class Peers;

/// Only what rehearsals know. Errors: those of the model for its sizes; Error if there is no such technique, or none
/// that would change anything.
Comparison rehearsed(const Question& question, const Profile& profile);
/// The memory of Headroom's rows over time, each as its rehearsal saw it.
std::vector<memory::MemorySnapshot> histories(const Question& question, const std::vector<Row>& rows,
                                              const Profile& profile);
/// Measures on contexts that are made for each training. Plans go by times that were measured at the beginning. With
/// `peers` PyTorch's trainings take turns with Headroom's. `watch` is told what is trained. Errors: as `rehearsed`, and
/// those of the peers.
Comparison compared(const Question& question, const MakeContext& make_context,
                    const std::function<void(const Row&, std::int64_t round)>& watch = {},
                    const Peers* peers = nullptr);

}  // namespace headroom::techniques
