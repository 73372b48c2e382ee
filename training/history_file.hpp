#pragma once
// Writes the memory history of a run to a file. The extension selects the format: .html is a self-contained page,
// .pickle is for PyTorch's memory viewer, .json is for Perfetto or chrome://tracing.
//
//     training::with_history(context, "memory.html", "keep all", [&] { session.step(); });
#include <functional>
#include <string>

#include <headroom/core/context.hpp>

namespace headroom::training {

/// Describes what is wrong with a history file's name; empty if it is valid.
std::string history_file_problem(const std::string& file);

/// Runs `body` and writes the history of the context's memory. The file is written when `body` ends, unless `complete`
/// is false, or when a request runs out of memory; that error is rethrown. An empty `file` writes nothing. Errors:
/// FileError; errors of `body`.
void with_history(Context& context, const std::string& file, const std::string& title,
                  const std::function<void()>& body, bool complete = true);

}  // namespace headroom::training
