#pragma once
// How long a program trains that passes over its images several times: --epochs, or --steps instead of them.
//
//     struct ImageFlags : cli::EpochFlags {...};
//     cli::add_epochs(app, flags);
//     cli::set_steps(flags, images.training->size());
#include <cstdint>

#include <headroom/examples/cli/flags.hpp>
#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

struct EpochFlags : Flags {
    std::int64_t epochs = 1;
    std::int64_t wanted_steps = -1;  ///< below 0: as many as the epochs have
};

/// --epochs and --steps.
void add_epochs(App& app, EpochFlags& flags);

/// Sets the number of steps for so many images to train on. A batch at the end of an epoch that is not full does not
/// count. Errors: Error if there are fewer images than a batch has.
void set_steps(EpochFlags& flags, std::int64_t images);

}  // namespace headroom::cli
