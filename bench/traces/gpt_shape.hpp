#pragma once
// The memory that a GPT-2 block asks for, forward and backward, in f32, and that of its parameters: for scripted
// programs.
//
//     const GptShape shape{.batch = 2, .time = 1024, .layers = 12};
//     Resident resident(program, shape);
//     Piece x = program.take(shape.rows(shape.width), 0, "tokens");
//     std::vector<Piece> kept = forward_block(program, shape, 0, 3, x);
//     backward_block(program, shape, 0, 3, kept, gradient);
#include <cstddef>
#include <string>
#include <vector>

#include <headroom/bench/traces/program.hpp>

namespace headroom::traces {

struct GptShape {
    std::size_t batch = 1;
    std::size_t time = 1024;
    std::size_t layers = 12;
    std::size_t width = 768;
    std::size_t heads = 12;
    std::size_t vocabulary = 50257;

    /// Bytes of [batch, time, columns].
    std::size_t rows(std::size_t columns) const { return batch * time * columns * sizeof(float); }
};

/// Parameters, gradients and AdamW's two moments.
class Resident {
  public:
    Resident(Program& program, const GptShape& shape);

  private:
    std::vector<Piece> pieces_;
};

/// Bytes of each of a block's parameters, in their order.
std::vector<std::size_t> block_parameters(const GptShape& shape);

/// The block's name: "blocks.3".
std::string block_path(std::size_t layer);

/// Takes what block `layer` asks for on `stream`, replaces x by the block's output, and returns what backward needs.
std::vector<Piece> forward_block(Program& program, const GptShape& shape, memory::StreamId stream, std::size_t layer,
                                 Piece& x);
/// Bytes of each of the pieces that `forward_block` returns.
std::vector<std::size_t> kept_bytes(const GptShape& shape);
/// Replaces the gradient of the block's output by that of its input, and gives `kept` back, piece by piece.
void backward_block(Program& program, const GptShape& shape, memory::StreamId stream, std::size_t layer,
                    std::vector<Piece>& kept, Piece& gradient);

/// Logits, loss and the gradient of the last block's output, which is returned; x goes.
Piece head(Program& program, const GptShape& shape, memory::StreamId stream, Piece x);

}  // namespace headroom::traces
