#pragma once
// Flags of programs that take a model of examples/models/models.hpp by its name.
#include <string>

#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/models/models.hpp>

namespace headroom::cli {

/// Sizes, under the name `batch` for samples in a step, dtype and optimizer.
void add_model_flags(App& app, const std::string& batch, models::Sizes& sizes, std::string& dtype,
                     std::string& optimizer);

}  // namespace headroom::cli
