#pragma once
// Knowing before the run whether it fits: the training on a dry context, and what would fit if it doesn't.
//
//     Forecast forecast = rehearse(flags, program);
//     fmt::print("{}\n", forecast.peak.allocated);
#include <cstddef>
#include <cstdint>
#include <string>

#include <headroom/examples/program/flags.hpp>
#include <headroom/examples/program/task.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::program {

/// Bytes, of the whole program: training steps, evaluation and sampling.
struct Forecast {
    MemoryPeak peak;
    std::size_t resident_bytes = 0;
    std::int64_t parameters = 0;
    bool batch_statistics = false;  ///< as `Session::takes_batch_statistics`
    std::string graph_refusal;      ///< why --graphs can't be used, as far as a rehearsal knows
};

/// Runs the first steps, an evaluation and the sampling that `flags` ask for without computing. Errors: OutOfMemory if
/// --memory-limit or the device is too small; its report says what all of the program needs, and its message which
/// flags fit, which was rehearsed as well. As `make_context`.
Forecast rehearse(const Flags& flags, const Program& program);

/// The error of a run that was refused memory although its rehearsal had passed, because others use the device: with
/// what the whole needs, and the flags that fit beside them.
OutOfMemory after_rehearsal(const OutOfMemory& error, const Flags& flags, const Program& program,
                            const Forecast& forecast);

/// How many of so many samples a rehearsal validates on: a first batch, another one, and a smaller one at the end, as
/// all others are like these.
std::int64_t rehearsed(std::int64_t samples, std::int64_t batch);

/// The largest scratch budget, at least that of `flags`, with which the same takes no more memory. Errors: as
/// `rehearse`, without advice.
std::size_t fit_scratch(const Flags& flags, const Program& program);

}  // namespace headroom::program
