#pragma once
// What programs that train on texts can be told beside what every program can.
//
//     struct GptFlags : cli::TextFlags {...};
//     const Option tokens = cli::add_text_data(app, flags);
//     cli::add_text_sizes(app, flags);
//     cli::add_text_sampling(app, flags);
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <headroom/examples/cli/flags.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/output_file.hpp>
#include <headroom/nn/sampling.hpp>

namespace headroom::cli {

struct TextFlags : Flags {
    std::string data;
    bool bytes = false;
    std::string tokens;               ///< the format of --data's tokens; empty: it is text
    std::int64_t vocabulary = 50257;  ///< of such tokens; GPT-2's
    std::string token_names;          ///< vocab.json; empty: tokens are numbers
    std::string pieces;               ///< vocab.txt of WordPiece; empty: another vocabulary
    std::string letter_case;          ///< of texts for WordPiece, "lower" or "keep"; empty: as files beside it say
    std::string from;                 ///< a file with a model to begin with
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t width = 128;
    std::int64_t block = 64;
    std::int64_t positions = 0;  ///< of the model; 0: as many as a block has
    double dropout = 0.0;
    std::int64_t sample = 0;
    double temperature = 0.8;
    std::int64_t top_k = 0;

    std::int64_t longest() const { return positions > 0 ? positions : block; }
    nn::SamplingOptions sampling() const { return {.temperature = temperature, .top_k = top_k}; }
    /// Files not to be written to.
    NamedFiles reads() const {
        return {{"--data", data}, {"--from", from}, {"--token-names", token_names}, {"--vocabulary", pieces}};
    }
};

/// Ranges are checked by the parser: out of range is wrong usage. Returns --tokens.
Option add_text_data(App& app, TextFlags& flags);
/// Of the model, and --steps.
void add_text_sizes(App& app, TextFlags& flags);
void add_text_sampling(App& app, TextFlags& flags);

/// Implies the flags of sizes from those of the model in --from. `heads`: their number, if a configuration beside the
/// file says it; else a note says what is assumed, unless the command line has it. Errors: wrong usage if the command
/// line says otherwise.
template <class ModelOptions>
void imply_sizes(App& app, const TextFlags& flags, const ModelOptions& sizes, std::optional<std::int64_t> heads) {
    const auto imply = [&](const char* name, std::int64_t size, const std::string& source) {
        cli::imply(app, name, fmt::to_string(size), source);
    };
    imply("--layers", sizes.layers, flags.from);
    imply("--width", sizes.width, flags.from);
    imply("--positions", sizes.block, flags.from);
    if (heads) {
        imply("--heads", *heads, "the configuration of " + flags.from);
    } else if (!app.given("--heads")) {
        imply("--heads", sizes.heads, flags.from);
        flags.note(
            fmt::format("{}: assuming {} attention heads, as no config.json beside it says how many; --heads sets them",
                        flags.from, sizes.heads));
    }
}

/// Errors: wrong usage, for sizes that do not go together.
void check_heads(const TextFlags& flags);
void check_positions(const TextFlags& flags);

}  // namespace headroom::cli
