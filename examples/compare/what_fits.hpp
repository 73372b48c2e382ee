#pragma once
// The program what_fits, for models of your own as well: it says on which GPUs they train, by which way of recomputing
// or by a plan, and how large they may be, without training and without a GPU. docs/models.md has its flags.
//
//     int main(int argc, char** argv) { return headroom::compare::what_fits(argc, argv, {my_model()}); }
#include <string>
#include <vector>

#include <headroom/examples/models/models.hpp>

namespace headroom::compare {

/// Does what the command line says with those of `models` that --model names. `examples` and the exit code: as
/// `memory_speed`. Throws nothing.
int what_fits(int argc, char** argv, const std::vector<models::Model>& models, const std::string& examples = {});

}  // namespace headroom::compare
