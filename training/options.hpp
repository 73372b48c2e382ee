#pragma once
// The options of a training: its length, its steps, and what it recomputes, validates and writes.
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

/// "adamw" and "sgd", of programs that take an optimizer by its name.
const std::vector<std::string>& optimizer_names();
/// With the options of its kind. Errors: Error that lists the names if there is none of this name.
MakeOptimizer optimizer_named(const std::string& name, const optim::AdamWOptions& of_adamw = {},
                              const optim::SgdOptions& of_sgd = {.momentum = 0.9});

/// How people set an option, for messages: `.batch = 4`, or `--batch 4` where a program has flags. `name` is a field of
/// `TrainerOptions` or of its schedule ("peak", "warmup_steps"), "memory_limit" or "graphs"; or "device", for a device
/// with a number of bytes.
using Spelling = std::function<std::string(const std::string& name, const std::string& value)>;
/// `.batch = 4`, and `.batch` for an empty value.
std::string spell_field(const std::string& name, const std::string& value);

struct TrainerOptions {
    /// The name of the training in its checkpoints: only a training of the same name resumes them.
    std::string name = "training";
    /// The first segment of all parameters' paths, such as "critic"; empty: none. Trainings that share a context have
    /// one each.
    std::string parameters = {};

    std::int64_t batch = 32;                 ///< samples in a micro-batch
    std::int64_t accumulate = 1;             ///< micro-batches in a step
    std::int64_t epochs = 1;                 ///< passes over the training data
    std::optional<std::int64_t> steps = {};  ///< optimizer steps, instead of `epochs`
    MakeOptimizer optimizer = adamw();
    /// The learning rate; where `decay_steps` is 0, it falls until the last step.
    optim::Schedule schedule{.decay = optim::Decay::cosine};
    double clip = 0;  ///< largest gradient norm; 0: none
    /// What each of several processes has its share of alone. `Shard::gradients` also alone: the same bits then.
    Shard shard = Shard::none;
    /// Decay of a moving average of the weights (`optim::MovingAverage`), which validations and the task's `end` see in
    /// their place, so that `best` goes by it; 0: none. Files have weights and averages.
    double average = 0;
    std::optional<Dtype> autocast = {};  ///< f16 (with loss scaling) or bf16
    nn::RecomputeWays recomputes = {};   ///< such as `nn::Gpt::recompute_ways()`
    std::string recompute = {};          ///< the name of one of them; empty: policies are the context's
    /// Bytes that the training may reserve at its peak: `Trainer::plan` finds the fastest micro-batch, and what to
    /// recompute, that keep within them. 0: the options say.
    std::size_t budget = 0;
    std::optional<plan::Costs> costs = {};  ///< that plans go by; none: rates that are assumed
    /// Whether a plan may share a step's samples out to smaller micro-batches. Empty: unless an op couples the samples
    /// of its micro-batch (`OpInfo::couples_samples`: batch norm). A training that is resumed keeps its micro-batch,
    /// and so does a task whose samples are not independent.
    std::optional<bool> split_batch = {};
    /// What whole micro-batches recompute (`Context::policy`) is by this plan, which files of the training have, too.
    /// `Trainer::apply` sets it.
    std::optional<plan::Plan> plan = {};
    /// `budget`, or what the plan was made for; 0: none. It is a limit while the training runs.
    std::size_t limit() const { return budget > 0 || !plan ? budget : plan->budget; }

    /// Steps between validations; 0: at the end of each epoch if there are `epochs`, and after the last step.
    std::int64_t validate_every = 0;
    std::int64_t patience = 0;  ///< ends after this many validations in a row without a lower loss; 0: never

    std::string resume = {};      ///< a file of `save` or `best`, from which the training goes on; empty: it begins
    bool changed_data = false;    ///< resumes although the data has another number of samples
    std::string save = {};        ///< file that the training is saved to at the end, and at Ctrl-C
    std::int64_t save_every = 0;  ///< steps between further saves; 0: none
    std::string best = {};        ///< file that the training is saved to whenever a validation loss is the least so far
    std::function<StateValues()> values = {};  ///< the program's own, kept beside the training in its files
    std::int64_t stop_after = -1;  ///< ends after this many steps of this run, as Ctrl-C does; below 0: does not
    bool handle_signals = true;    ///< SIGINT, SIGTERM, SIGHUP end a training after its step; a second one at once

    /// On a GPU, `Trainer::run` rehearses for a larger scratch budget that does not raise the peak, and the context has
    /// it. A training that is resumed needs the same one again.
    bool fit_scratch = false;

    bool print = true;                ///< progress and results, on standard output
    std::string data = {};            ///< what it trains on, for people: "60000 images"
    std::string unit = "samples";     ///< of throughput: "tokens"
    std::int64_t units = 1;           ///< in a sample
    std::string log = {};             ///< file for the figures of every step, a JSON object in each line
    std::string tensorboard = {};     ///< folder for the same figures as TensorBoard reads them
    std::string memory_history = {};  ///< file for the memory's history, as `with_history`
    Spelling spell = spell_field;
    /// By which rates, the time that is left and looks at results go.
    Clock clock = std::chrono::steady_clock::now;
};

}  // namespace headroom::training
