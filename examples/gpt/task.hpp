#pragma once
// A GPT on a text, as a training program's task.
//
//     program::train(flags, [&] { return gpt::text_program(flags); });
#include <headroom/examples/gpt/flags.hpp>
#include <headroom/examples/program/task.hpp>

namespace headroom::gpt {

/// Reads the text that `flags` name; they outlive the program. Errors: FileError, and Error if it is too short.
program::Program text_program(const GptFlags& flags);

}  // namespace headroom::gpt
