#pragma once
// What train_gpt can be told beside what every program on texts can. Defaults are nanoGPT's configuration for a CPU.
//
//     GptFlags flags;
//     add_flags(app, flags);
#include <cstdint>

#include <headroom/examples/text/text_flags.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::gpt {

struct GptFlags : text::TextFlags {
    GptFlags();
    bool half_residual = false;

    nn::GptOptions model(std::int64_t kinds) const {
        return {.vocabulary = kinds,
                .block = longest(),
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
