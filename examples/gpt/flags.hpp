#pragma once
// What train_gpt can be told beside what every program can. Defaults are nanoGPT's configuration for a CPU.
//
//     GptFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <string>

#include <headroom/examples/program/flags.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::gpt {

struct GptFlags : program::Flags {
    GptFlags();
    std::string data;
    std::string tokens;               ///< the format of --data's tokens; empty: it is text
    std::int64_t vocabulary = 50257;  ///< of such tokens; GPT-2's
    std::string token_names;          ///< vocab.json; empty: tokens are numbers
    std::string from;                 ///< a GPT-2 file to begin with
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t width = 128;
    std::int64_t block = 64;
    std::int64_t positions = 0;  ///< of the model; 0: as many as a block has
    double dropout = 0.0;
    bool half_residual = false;
    std::int64_t sample = 0;
    double temperature = 0.8;
    std::int64_t top_k = 0;
    bool bytes = false;

    nn::GptOptions model(std::int64_t kinds) const {
        return {.vocabulary = kinds,
                .block = positions > 0 ? positions : block,
                .layers = layers,
                .heads = heads,
                .width = width,
                .dropout = dropout,
                .half_residual = half_residual};
    }
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, GptFlags& flags);

}  // namespace headroom::gpt
