#pragma once
// The state of one part of a training, for checkpoints: named arrays, and numbers and words as text. The arrays are
// views of the state itself, so saving copies nothing and loading fills them in place. `Parameters`, optimizers, the
// gradient accumulator and data loaders are such parts. To make your own type one, give it two functions:
//
//     struct MovingAverage {
//         StateDict state_dict() { return {{{"average.loss", loss.array()}}, {{"average.count", fmt::to_string(n)}}}; }
//         void restore(const StateValues& values) { n = state_value<std::int64_t>(values, "average.count"); }
//     };
//
// Names must be unique across all parts of a training, because one file holds them all. files/checkpoint.hpp writes and
// reads such files.
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/named_array.hpp>

namespace headroom {

/// Numbers are written so that they read back with the same bits.
using StateValues = std::map<std::string, std::string>;

struct StateDict {
    std::vector<NamedArray> arrays;
    StateValues values;
};

/// `restore` takes the values of a `state_dict` whose arrays have been filled, or are about to be. If something does
/// not fit, it throws an Error that says so and changes nothing.
template <class Part>
concept Stateful = requires(Part& part, const StateValues& values) {
    { part.state_dict() } -> std::same_as<StateDict>;
    part.restore(values);
};

/// A value as a number (std::int64_t, std::uint64_t, double) or std::string. Errors: Error that names the value if it
/// is missing or not such a number.
template <class T>
T state_value(const StateValues& values, std::string_view name);

}  // namespace headroom
