#include <headroom/bench/traces/gpt_shape.hpp>

#include <utility>

#include <fmt/format.h>

namespace headroom::traces {

std::vector<std::size_t> block_parameters(const GptShape& shape) {
    const std::size_t c = shape.width;
    std::vector<std::size_t> bytes = {c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c, 4 * c * c, c};
    for (std::size_t& count : bytes) count *= sizeof(float);
    return bytes;
}

std::string block_path(std::size_t layer) { return fmt::format("blocks.{}", layer); }

Resident::Resident(Program& program, const GptShape& shape) {
    const auto take_all = [&](Category category) {
        pieces_.push_back(program.take(shape.vocabulary * shape.width * sizeof(float), 0, "tokens", category));
        pieces_.push_back(program.take(shape.time * shape.width * sizeof(float), 0, "positions", category));
        for (std::size_t layer = 0; layer < shape.layers; ++layer) {
            for (const std::size_t bytes : block_parameters(shape)) {
                pieces_.push_back(program.take(bytes, 0, block_path(layer), category));
            }
        }
    };
    take_all(Category::parameters);
    take_all(Category::gradients);
    take_all(Category::optimizer_state);
    take_all(Category::optimizer_state);
}

std::vector<Piece> forward_block(Program& program, const GptShape& shape, memory::StreamId stream, std::size_t layer,
                                 Piece& x) {
    const std::size_t c = shape.width;
    const auto take = [&](std::size_t columns) { return program.take(shape.rows(columns), stream, block_path(layer)); };
    std::vector<Piece> kept;
    const auto begin = [&] {
        kept.push_back(std::move(x));
        kept.push_back(take(c));  // norm
        kept.push_back(take(2));  // its mean and deviation
    };
    const auto end = [&] {
        Piece branch = take(c);
        x = take(c);
    };
    begin();
    kept.push_back(take(3 * c));  // queries, keys, values
    kept.push_back(take(c));      // attention
    kept.push_back(take(shape.heads));
    end();
    begin();
    kept.push_back(take(4 * c));  // up
    kept.push_back(take(4 * c));  // gelu
    end();
    return kept;
}

std::vector<std::size_t> kept_bytes(const GptShape& shape) {
    const std::size_t c = shape.width;
    std::vector<std::size_t> bytes = {c, c, 2, 3 * c, c, shape.heads, c, c, 2, 4 * c, 4 * c};
    for (std::size_t& count : bytes) count = shape.rows(count);
    return bytes;
}

void backward_block(Program& program, const GptShape& shape, memory::StreamId stream, std::size_t layer,
                    std::vector<Piece>& kept, Piece& gradient) {
    const std::size_t c = shape.width;
    const auto take = [&](std::size_t columns, Category category = Category::activations) {
        return program.take(shape.rows(columns), stream, block_path(layer), category);
    };
    const auto drop = [&](std::size_t count) {
        for (; count > 0; --count) kept.pop_back();
    };
    Piece hidden = take(4 * c);  // of gelu's output
    drop(1);
    hidden = take(4 * c);  // of up's output: both are there for a moment
    drop(1);
    Piece normed = take(c);
    hidden.reset();
    gradient = take(c);
    normed.reset();
    drop(3);  // norm, its statistics, its input
    Piece attended = take(c);
    Piece delta = take(shape.heads, Category::workspace);
    Piece packed = take(3 * c);
    delta.reset();
    attended.reset();
    drop(3);  // attention, its statistics, queries with keys and values
    normed = take(c);
    packed.reset();
    gradient = take(c);
    normed.reset();
    drop(3);
}

Piece head(Program& program, const GptShape& shape, memory::StreamId stream, Piece x) {
    Piece normed = program.take(shape.rows(shape.width), stream, "norm");
    Piece gradient = program.take(shape.rows(shape.width), stream, "norm");
    // The vocabulary in chunks of rows: logits are never there as a whole.
    constexpr std::size_t kChunks = 8;
    for (std::size_t i = 0; i < kChunks; ++i) {
        Piece logits = program.take(shape.rows(shape.vocabulary) / kChunks, stream, "tokens", Category::workspace);
    }
    normed.reset();
    Piece result = program.take(shape.rows(shape.width), stream, "norm");
    x.reset();
    return result;
}

}  // namespace headroom::traces
