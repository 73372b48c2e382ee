#pragma once
// What every training program can be told: where it runs, how it computes, how it steps, what it reads and writes. A
// program adds flags of its own, and sets its own defaults before.
//
//     cli::Flags flags;
//     flags.trainer.batch = 100;
//     cli::add_flags(app, flags);
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/dist/world.hpp>
#include <headroom/examples/cli/gpu_flags.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/stored_flags.hpp>
#include <headroom/training/options.hpp>

namespace headroom::cli {

struct Flags {
    std::string device = "cpu";
    GpuFlags gpu;
    int threads = 0;
    int ranks = 0;               ///< processes that a dry run stands for; 0: this one
    dist::JoinOptions timeouts;  ///< which `run` has read before
    std::uint64_t seed = 1337;
    std::size_t memory_limit = 0;
    ComputeOptions compute;
    std::string tuning_file;
    bool libraries = false;  ///< print which ones computed

    /// Options that a flag sets as they are. `train` adds those that follow from the flags below.
    training::TrainerOptions trainer{.batch = 12,
                                     .schedule = {.decay = optim::Decay::cosine, .warmup_steps = 100},
                                     .clip = 1.0,
                                     .recomputes = {{}},
                                     .recompute = "none"};
    std::string dtype = "f32";
    std::string shard = "none";
    std::int64_t steps = 0;  ///< each program has its own way of saying how many
    double min_lr = -1;      ///< below 0: a tenth of the peak
    std::string optimizer = "adamw";
    double weight_decay = 0.1;
    double beta2 = 0.99;           ///< of AdamW
    double momentum = 0.9;         ///< of SGD
    bool recompute_given = false;  ///< on the command line; else the plan of a training that is resumed counts
    bool keep_batch = false, split_batch = false;  ///< for every model; neither: as its layers suggest

    std::string plan, save_plan;   ///< files
    std::string costs, calibrate;  ///< files
    bool explain = false;          ///< the plan
    std::string json;
    std::string pictures;
    std::shared_ptr<const StoredFlags> stored;  ///< with the file to resume
    /// Lines about what was read, which `train` prints once; copies share them.
    std::shared_ptr<std::vector<std::string>> notes = std::make_shared<std::vector<std::string>>();

    /// Adds a line, unless it is there.
    void note(const std::string& line) const;
    /// The checkpoint to continue from; empty if there is none.
    std::string resume() const { return stored ? stored->file() : ""; }

    double floor() const { return min_lr < 0 ? trainer.schedule.peak / 10 : min_lr; }
    /// None for f32.
    std::optional<Dtype> autocast() const;
};

/// Ranges are checked by the parser: out of range is wrong usage. Takes the app's when_parsed and
/// its config file; its `callback` is left to the program.
void add_flags(App& app, Flags& flags);

/// --workers and --from, which belong to the run alone; `what` is for --help. After `add_flags`.
void add_workers(App& app, int& workers, const std::string& what);
void add_from(App& app, std::string& from, const std::string& what);

/// What the training runs on: a GPU for --device cuda, else the CPU. `gpu_in_use`: `ContextOptions::gpu_in_use`.
/// Errors: DeviceError if there is no GPU.
Context make_context(const Flags& flags, std::size_t gpu_in_use = 0);
/// Of what the training will run on, or of the GPU that the flags describe. Errors: as `make_context`.
Profile profile_of(const Flags& flags);

}  // namespace headroom::cli
