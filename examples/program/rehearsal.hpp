#pragma once
// Knowing before the run whether it fits: the training on a dry context, and what would fit if it doesn't.
//
//     Forecast forecast = rehearse(flags, program);
//     fmt::print("{}\n", forecast.peak_allocated);
#include <cstddef>
#include <cstdint>
#include <string>

#include <headroom/examples/program/flags.hpp>
#include <headroom/examples/program/task.hpp>

namespace headroom::program {

/// Bytes, of the whole program: training steps, evaluation and sampling.
struct Forecast {
    std::size_t peak_allocated = 0;
    std::size_t peak_reserved = 0;
    std::size_t resident_bytes = 0;
    std::int64_t parameters = 0;
    bool batch_statistics = false;  ///< as `Session::takes_batch_statistics`
    std::string graph_refusal;      ///< why --graphs can't be used, as far as a rehearsal knows
};

/// Runs the first steps, an evaluation and the sampling that `flags` ask for without computing. Errors: OutOfMemory if
/// --memory-limit is too small; its message says which flags would fit. As `make_context`.
Forecast rehearse(const Flags& flags, const Program& program);

/// How many of so many samples a rehearsal validates on: a first batch, another one, and a smaller one at the end, as
/// all others are like these.
std::int64_t rehearsed(std::int64_t samples, std::int64_t batch);

/// The largest scratch budget, at least that of `flags`, with which the same takes no more memory. Errors: as
/// `rehearse`, without advice.
std::size_t fit_scratch(const Flags& flags, const Program& program);

}  // namespace headroom::program
