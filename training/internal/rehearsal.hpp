#pragma once
// Knowing before the run whether it fits: the training on a dry context, and what would fit if it doesn't.
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {

/// Bytes that a training on such a context may take: the limit, or all that the device has for it.
std::size_t within_limit(const Profile& profile);

/// Runs on a dry context what later steps, validations and the end take no more memory than.
Forecast rehearse_on(Context& dry, const MakeTask& task, const TrainerOptions& options);

/// `Session::keeps_batch` of such a training.
bool batch_stays_whole(const Profile& profile, const MakeTask& task, const TrainerOptions& options);

/// `Session::work_of_ranks` of the profile's ranks.
std::vector<std::vector<std::int64_t>> work_of_ranks(const Profile& profile, const MakeTask& task,
                                                     const TrainerOptions& options);

/// A plan that fits into so many bytes, in words: "it fits with .budget = 18874368: 2 micro-batches of 4 samples, ...";
/// or the least that a plan needs; and `more`, another way out. `whole`: the peak where nothing limits it.
std::string advice(const Profile& profile, std::size_t bytes, const MemoryPeak& whole, const MakeTask& task,
                   const TrainerOptions& options, const std::string& more);

/// The error of a run on such a context that was refused memory although its rehearsal had passed: because others use
/// the device, with what the whole needs and the options that fit beside them; or because this work takes more than
/// any that was rehearsed.
OutOfMemory beside_others(const OutOfMemory& error, const Profile& profile, const MakeTask& task,
                          const TrainerOptions& options, const Forecast& forecast);

}  // namespace headroom::training
