#include <utility>
#include <vector>

#include <headroom/bench/traces/gpt_shape.hpp>
#include <headroom/bench/traces/scripted.hpp>

namespace headroom::traces {

namespace {

constexpr memory::StreamId kCompute = 0;
constexpr memory::StreamId kSide = 1;
constexpr std::size_t kBucket = 25'000'000;

/// Forward and backward on the compute stream alone.
void train(Program& program, const GptShape& shape) {
    std::vector<std::vector<Piece>> kept(shape.layers);
    Piece x = program.take(shape.rows(shape.width), kCompute, "tokens");
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
        kept[layer] = forward_block(program, shape, kCompute, layer, x);
    }
    Piece gradient = head(program, shape, kCompute, std::move(x));
    for (std::size_t layer = shape.layers; layer-- > 0;) {
        backward_block(program, shape, kCompute, layer, kept[layer], gradient);
    }
}

/// Buckets that the compute stream fills and the side stream sends; each is given back as soon as that is queued.
void reduce(Program& program, std::size_t buckets) {
    for (std::size_t i = 0; i < buckets; ++i) {
        const Piece bucket = program.take(kBucket, kCompute, "reduce", Category::gradients);
        program.wait(kSide, kCompute);
        program.use(bucket, kSide);
    }
}

/// Weights that the side stream gathers and the compute stream reads, all there at a time.
void gather(Program& program, std::size_t buckets) {
    std::vector<Piece> gathered;
    for (std::size_t i = 0; i < buckets; ++i) {
        gathered.push_back(program.take(kBucket, kSide, "gather", Category::parameters));
    }
    program.wait(kCompute, kSide);
    for (const Piece& piece : gathered) program.use(piece, kCompute);
}

}  // namespace

Trace side_stream() {
    const GptShape shape{.batch = 2, .layers = 8};
    Program program(
        "side_stream",
        "scripted: activations of a GPT-2 on the compute stream, then as many bytes of gathered weights on a "
        "side stream, in turn");
    for (int i = 0; i < 8; ++i) {
        program.step();
        train(program, shape);
        reduce(program, 20);
        gather(program, 42);
    }
    return program.trace();
}

}  // namespace headroom::traces
