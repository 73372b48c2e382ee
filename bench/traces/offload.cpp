#include <utility>
#include <vector>

#include <headroom/bench/traces/gpt_shape.hpp>
#include <headroom/bench/traces/scripted.hpp>

namespace headroom::traces {

namespace {

constexpr memory::StreamId kCompute = 0;
constexpr memory::StreamId kCopy = 1;

/// To the host: the copy stream reads, then the memory goes.
void send(Program& program, std::vector<Piece> kept) {
    program.wait(kCopy, kCompute);
    for (const Piece& piece : kept) program.use(piece, kCopy);
}

/// From the host, into memory of the copy stream; the compute stream waits when it needs it.
std::vector<Piece> fetch(Program& program, const GptShape& shape, std::size_t layer) {
    std::vector<Piece> pieces;
    for (const std::size_t bytes : kept_bytes(shape)) {
        pieces.push_back(program.take(bytes, kCopy, block_path(layer)));
    }
    return pieces;
}

void step(Program& program, const GptShape& shape) {
    program.step();
    Piece ids = program.take(shape.rows(1), kCompute, "inputs", Category::inputs);
    Piece targets = program.take(shape.rows(1), kCompute, "inputs", Category::inputs);
    Piece x = program.take(shape.rows(shape.width), kCompute, "tokens");
    std::vector<Piece> kept;
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
        std::vector<Piece> next = forward_block(program, shape, kCompute, layer, x);
        if (layer > 0) send(program, std::move(kept));
        kept = std::move(next);
    }
    Piece gradient = head(program, shape, kCompute, std::move(x));
    for (std::size_t layer = shape.layers; layer-- > 0;) {
        std::vector<Piece> next;
        if (layer > 0) next = fetch(program, shape, layer - 1);
        backward_block(program, shape, kCompute, layer, kept, gradient);
        if (layer == 0) break;
        program.wait(kCompute, kCopy);
        for (const Piece& piece : next) program.use(piece, kCompute);
        kept = std::move(next);
    }
}

}  // namespace

Trace offload() {
    const GptShape shape{.batch = 4};
    Program program("offload",
                    "scripted: GPT-2 124M, 4 x 1024 tokens, what blocks keep goes to the host and comes back");
    const Resident resident(program, shape);
    for (int i = 0; i < 8; ++i) step(program, shape);
    return program.trace();
}

}  // namespace headroom::traces
