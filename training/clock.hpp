#pragma once
// The clock that a training measures with: `std::chrono::steady_clock::now`, or a clock that a test advances.
//
//     training::TrainerOptions options;
//     options.clock = [&] { return training::Moment(simulated); };  // `simulated`: nanoseconds
#include <chrono>
#include <functional>

namespace headroom::training {

using Moment = std::chrono::steady_clock::time_point;
using Clock = std::function<Moment()>;

inline double seconds_between(Moment begin, Moment end) { return std::chrono::duration<double>(end - begin).count(); }

}  // namespace headroom::training
