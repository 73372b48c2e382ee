#pragma once
// What train_text can be told beside what every program on texts can.
//
//     ModelFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <string>

#include <headroom/examples/text/text_flags.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/recurrent.hpp>

namespace headroom::text {

struct ModelFlags : TextFlags {
    ModelFlags();
    std::string model = "lstm";
    std::string given_vocabulary;  ///< vocab.txt, or how many kinds
    std::int64_t hidden = 0;  ///< BERT's, between the two products of a layer's second half; 0: four times the width

    bool masked() const { return model == "bert"; }
    nn::RecurrentNetOptions recurrent() const {
        return {.in = width, .width = width, .layers = layers, .dropout = dropout};
    }
    nn::BertOptions bert(std::int64_t kinds, std::optional<std::int64_t> padding) const {
        return {.vocabulary = kinds,
                .block = longest(),
                .layers = layers,
                .heads = heads,
                .width = width,
                .hidden = hidden > 0 ? hidden : 4 * width,
                .dropout = dropout,
                .attention_dropout = dropout,
                .padding = padding};
    }
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, ModelFlags& flags);

}  // namespace headroom::text
