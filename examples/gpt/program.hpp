#pragma once
// A GPT on a text or on tokens, as a program: what it can be told, and its task. train_gpt trains it.
//
//     gpt::GptFlags flags;
//     gpt::add_flags(app, flags);
//     program::train(flags, [&] { return gpt::text_program(flags); });
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headroom/examples/program/program.hpp>
#include <headroom/examples/program/text_flags.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::gpt {

/// By its name as a flag.
using NamedActivation = std::pair<std::string, Activation>;
inline const std::vector<NamedActivation> kActivations{
    {"gelu_tanh", Activation::gelu_tanh}, {"gelu_erf", Activation::gelu_erf}, {"relu", Activation::relu}};

/// Defaults are nanoGPT's configuration for a CPU.
struct GptFlags : program::TextFlags {
    GptFlags();
    bool half_residual = false;
    bool no_bias = false;
    std::string activation = "gelu_tanh";

    nn::GptOptions model(std::int64_t kinds) const {
        return {.vocabulary = kinds,
                .block = longest(),
                .layers = layers,
                .heads = heads,
                .width = width,
                .dropout = dropout,
                .bias = !no_bias,
                .activation = std::ranges::find(kActivations, activation, &NamedActivation::first)->second,
                .half_residual = half_residual};
    }
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, GptFlags& flags);

/// Reads the text or tokens that `flags` name; they outlive the program. Errors: as `program::read_corpus`; Error if a
/// model to begin with has another vocabulary.
program::Program text_program(const GptFlags& flags);

}  // namespace headroom::gpt
