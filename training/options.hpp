#pragma once
// Options of a training: length, steps, recomputation, validation and files.
//
//     const training::TrainerOptions options{.batch = 64,
//                                            .epochs = 5,
//                                            .optimizer = training::sgd({.momentum = 0.9}),
//                                            .schedule = {.decay = optim::Decay::cosine, .peak = 0.1},
//                                            .save = "run.safetensors"};
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/nn/recompute_way.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/optimizer.hpp>
#include <headroom/optim/schedule.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/plan/plan.hpp>
#include <headroom/training/clock.hpp>

namespace headroom::training {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(Parameters&)>;
MakeOptimizer adamw(const optim::AdamWOptions& options = {});
MakeOptimizer sgd(const optim::SgdOptions& options = {});

/// The names that `optimizer_named` takes: "adamw" and "sgd".
const std::vector<std::string>& optimizer_names();
/// The optimizer of this name, with its kind's options. Errors: Error that lists the names if it is unknown.
MakeOptimizer optimizer_named(const std::string& name, const optim::AdamWOptions& of_adamw = {},
                              const optim::SgdOptions& of_sgd = {.momentum = 0.9});

/// How messages spell an option: `.batch = 4`, or `--batch 4` in a program with flags. `name` is a field of
/// `TrainerOptions` or of its schedule ("peak", "warmup_steps"), "memory_limit", "graphs", or "device" for a device
/// with a number of bytes.
using Spelling = std::function<std::string(const std::string& name, const std::string& value)>;
/// `.batch = 4`, and `.batch` for an empty value.
std::string spell_field(const std::string& name, const std::string& value);

struct TrainerOptions {
    /// The training's name in its checkpoints. Only a training with the same name can resume them.
    std::string name = "training";
    /// First segment of all parameter paths, such as "critic"; empty: none. Trainings that share a context need
    /// different names.
    std::string parameters = {};

    std::int64_t batch = 32;                 ///< samples in a micro-batch
    std::int64_t accumulate = 1;             ///< micro-batches in a step
    std::int64_t epochs = 1;                 ///< passes over the training data
    std::optional<std::int64_t> steps = {};  ///< optimizer steps, instead of `epochs`
    MakeOptimizer optimizer = adamw();
    /// The learning rate. If `decay_steps` is 0, the decay lasts until the last step.
    optim::Schedule schedule{.decay = optim::Decay::cosine};
    double clip = 0;  ///< largest gradient norm; 0: none
    /// What is sharded across processes. `Shard::gradients` also works with one process and then gives the same bits.
    Shard shard = Shard::none;
    /// Decay of a moving average of the weights (`optim::MovingAverage`); 0: none. Validations and `Task::end` use the
    /// averages, so `best` refers to them. Checkpoints hold weights and averages.
    double average = 0;
    std::optional<Dtype> autocast = {};  ///< f16 (with loss scaling) or bf16
    nn::RecomputeWays recomputes = {};   ///< such as `nn::Gpt::recompute_ways()`
    std::string recompute = {};          ///< name of one of `recomputes`; empty: the context's policies
    /// Bytes that the training may reserve at its peak. `Trainer::plan` chooses the micro-batch and the recomputation
    /// that make it fastest within them. 0: no budget; `batch` and `recompute` apply.
    std::size_t budget = 0;
    std::optional<plan::Costs> costs = {};  ///< cost model for plans; none: assumed rates
    /// Whether a plan may split a step's samples into smaller micro-batches. Empty: yes, unless an op couples the
    /// samples of a micro-batch (`OpInfo::couples_samples`: batch norm). A resumed training and a task whose samples
    /// are not independent always keep their micro-batch.
    std::optional<bool> split_batch = {};
    /// The recomputation plan in force (as `Context::policy` for each whole micro-batch). Set by `Trainer::apply`;
    /// saved with the training.
    std::optional<plan::Plan> plan = {};
    /// `budget` if set, else the budget that the plan was made for; 0: no limit. Enforced while the training runs.
    std::size_t limit() const { return budget > 0 || !plan ? budget : plan->budget; }

    /// Steps between validations; 0: at the end of each epoch if there are `epochs`, and after the last step.
    std::int64_t validate_every = 0;
    std::int64_t patience = 0;  ///< stops after this many validations in a row without a lower loss; 0: never

    std::string resume = {};                   ///< checkpoint to resume (`save` or `best`); empty: starts from scratch
    bool changed_data = false;                 ///< resumes even if the number of samples has changed
    std::string save = {};                     ///< checkpoint written at the end and at Ctrl-C
    std::int64_t save_every = 0;               ///< steps between saves during the training; 0: none
    std::string best = {};                     ///< checkpoint written at each new lowest validation loss
    std::function<StateValues()> values = {};  ///< extra values of the program, saved in its checkpoints
    std::int64_t stop_after = -1;              ///< ends this run after this many steps, as Ctrl-C does; negative: never
    bool handle_signals =
        true;  ///< SIGINT, SIGTERM or SIGHUP end a training after the current step; a second one at once

    /// On a GPU, `Trainer::run` searches for the largest scratch budget that does not raise the peak, and makes the
    /// context with it. A resumed training needs the same scratch budget again.
    bool fit_scratch = false;

    bool print = true;                ///< progress and results, on standard output
    std::string data = {};            ///< description of the training data for messages: "60000 images"
    std::string unit = "samples";     ///< unit of throughput, such as "tokens"
    std::int64_t units = 1;           ///< units per sample
    std::string log = {};             ///< file for each step's figures, one JSON object per line
    std::string tensorboard = {};     ///< folder for the same figures as TensorBoard events
    std::string memory_history = {};  ///< file for the memory history; see `with_history`
    Spelling spell = spell_field;
    /// Clock for rates, remaining time and the polling of results.
    Clock clock = std::chrono::steady_clock::now;
};

}  // namespace headroom::training
