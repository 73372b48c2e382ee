#include <headroom/examples/cli/epochs.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/examples/cli/options.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::cli {

void add_epochs(App& app, EpochFlags& flags) {
    add_option(app, "--epochs", flags.epochs, "passes over the images").check(whole(1, 1 << 20)).show_default();
    add_option(app, "--steps", flags.wanted_steps, "optimizer steps, instead of --epochs")
        .check(whole(0, std::int64_t{1} << 40));
}

void set_steps(EpochFlags& flags, std::int64_t images) {
    if (images < flags.trainer.batch)
        throw Error(fmt::format("--batch {}: there are {} images to train on", flags.trainer.batch, images));
    const std::int64_t of_epochs = flags.epochs * (images / flags.trainer.batch) / flags.trainer.accumulate;
    flags.steps = flags.wanted_steps >= 0 ? flags.wanted_steps : std::max<std::int64_t>(1, of_epochs);
}

}  // namespace headroom::cli
