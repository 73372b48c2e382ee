// Trains a language model on a text file: an LSTM or a GRU, which guess the next token, or a BERT, which guesses hidden
// ones.
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/program.hpp>
#include <headroom/examples/text/task.hpp>

int main(int argc, char** argv) {
    using namespace headroom;
    CLI::App app("Trains an LSTM, a GRU or a BERT on a text file.", "train_text");
    text::ModelFlags flags;
    text::add_flags(app, flags);
    return program::run(app, argc, argv, [&] { program::train(flags, [&] { return text::text_program(flags); }); });
}
