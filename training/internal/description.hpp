#pragma once
// Parses a task's description of itself.
#include <nlohmann/json_fwd.hpp>

#include <headroom/training/task.hpp>

namespace headroom::training {

/// `Task::describe`, parsed. Errors: Error unless it is a JSON object.
nlohmann::json description_of(const Task& task);

}  // namespace headroom::training
