#pragma once
// The processes that a program is one of, if `mpirun` has started it. The first one prints and writes files; of the
// others only errors are seen.
//
//     Context context = cli::world().context({.seed = 1});
#include <headroom/dist/world.hpp>
#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

/// Joined by `run`, or now. Errors: as dist::World::join.
const dist::World& world();
/// --join-timeout and --rank-timeout. `run` looks for them where the app has them, before all other flags.
void add_timeouts(App& app, dist::JoinOptions& options);
/// Errors: Error if there are several processes, which `program` has no use for.
void expect_alone(const char* program);

}  // namespace headroom::cli
