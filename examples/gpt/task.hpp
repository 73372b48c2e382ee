#pragma once
// A GPT on a text or on tokens, as a training program's task.
//
//     program::train(flags, [&] { return gpt::text_program(flags); });
#include <headroom/examples/gpt/flags.hpp>
#include <headroom/examples/program/program.hpp>

namespace headroom::gpt {

/// Reads the text or tokens that `flags` name; they outlive the program. Errors: as `read_corpus`; Error if a model to
/// begin with has another vocabulary.
program::Program text_program(const GptFlags& flags);

}  // namespace headroom::gpt
