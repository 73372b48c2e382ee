// Trains a GPT on a text file within the memory that there is, and says beforehand how much that will be.
#include <headroom/examples/gpt/program.hpp>
#include <headroom/examples/program/outcome.hpp>

int main(int argc, char** argv) {
    using namespace headroom;
    CLI::App app("Trains a GPT on a text file.", "train_gpt");
    gpt::GptFlags flags;
    gpt::add_flags(app, flags);
    return program::run(app, argc, argv, [&] { program::train(flags, [&] { return gpt::text_program(flags); }); });
}
