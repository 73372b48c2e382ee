#pragma once
// A model of language on a text or on tokens, as a training program's task.
//
//     program::train(flags, [&] { return text::text_program(flags); });
#include <headroom/examples/program/program.hpp>
#include <headroom/examples/text/corpus.hpp>
#include <headroom/examples/text/flags.hpp>

namespace headroom::text {

/// Reads the text or tokens that `flags` name; they outlive the program. Errors: as `read_corpus`; Error if a model to
/// begin with has another vocabulary.
program::Program text_program(const ModelFlags& flags);

/// `flags` and `corpus` outlive the tasks. Of lstm and gru, and of bert.
std::unique_ptr<training::Task> recurrent_task(Parameters& parameters, const ModelFlags& flags, std::int64_t batch,
                                               const Corpus& corpus);
std::unique_ptr<training::Task> masked_task(Parameters& parameters, const ModelFlags& flags, std::int64_t batch,
                                            const Corpus& corpus);
/// Errors: Error if the corpus is too short for their windows.
void expect_recurrent_windows(const ModelFlags& flags, const Corpus& corpus);
void expect_masked_windows(const ModelFlags& flags, const Corpus& corpus);

}  // namespace headroom::text
