#pragma once
// Runs the training on a dry context to learn whether it fits, and searches for options that fit if it does not.
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/training/options.hpp>
#include <headroom/training/task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {

/// Bytes that a training with this profile may take: the limit, or all that the device has for it.
std::size_t within_limit(const Profile& profile);

/// Runs steps until memory repeats, then a validation and the end, all on a dry context: the rest of the training takes
/// no more memory.
Forecast rehearse_on(Context& dry, const MakeTask& task, const TrainerOptions& options);

/// `Session::keeps_batch` of a training with this profile.
bool batch_stays_whole(const Profile& profile, const MakeTask& task, const TrainerOptions& options);

/// `Session::work_of_ranks` for the profile's ranks.
std::vector<std::vector<std::int64_t>> work_of_ranks(const Profile& profile, const MakeTask& task,
                                                     const TrainerOptions& options);

/// Describes a plan that fits into `bytes`: "it fits with .budget = 18874368: 2 micro-batches of 4 samples, ...", or
/// the least that any plan needs. Appends `more`, another way out. `whole` is the peak without a limit.
std::string advice(const Profile& profile, std::size_t bytes, const MemoryPeak& whole, const MakeTask& task,
                   const TrainerOptions& options, const std::string& more);

/// The error for a run that ran out of memory although its rehearsal had passed. If other processes use the device, it
/// gives the bytes that the training needs and the options that fit beside them. Otherwise it says that this step takes
/// more memory than any rehearsed one.
OutOfMemory beside_others(const OutOfMemory& error, const Profile& profile, const MakeTask& task,
                          const TrainerOptions& options, const Forecast& forecast);

}  // namespace headroom::training
