#pragma once
// The memory history of a run as a file, in the format that its name ends with: .html, a page that needs nothing else;
// .pickle, for PyTorch's memory viewer; .json, for Perfetto or chrome://tracing.
//
//     training::with_history(context, "memory.html", "keep all", [&] { session.step(); });
#include <functional>
#include <string>

#include <headroom/core/context.hpp>

namespace headroom::training {

/// Says what is wrong with such a file's name; nothing if it is good.
std::string history_file_problem(const std::string& file);

/// Runs `body`, and writes the history of the context's memory: at the end of `body`, unless `complete` is false, or at
/// the request that ran out of memory, whose error goes on to the caller. An empty `file` writes nothing. Errors:
/// FileError; errors of `body`.
void with_history(Context& context, const std::string& file, const std::string& title,
                  const std::function<void()>& body, bool complete = true);

}  // namespace headroom::training
