#include <array>
#include <utility>
#include <vector>

#include <headroom/bench/traces/gpt_shape.hpp>
#include <headroom/bench/traces/scripted.hpp>

namespace headroom::traces {

namespace {

constexpr memory::StreamId kMain = 0;
constexpr std::size_t kPipelines = 4;
/// A pipeline starts so many blocks after the one before it.
constexpr std::size_t kStagger = 3;

/// One micro-batch on its way through the model, block by block: forward, then backward.
class Pipeline {
  public:
    Pipeline(Program& program, GptShape shape, memory::StreamId stream)
        : program_(program), shape_(shape), stream_(stream), kept_(shape.layers) {
        ids_ = program.take(shape.rows(1), kMain, "inputs", Category::inputs);
        targets_ = program.take(shape.rows(1), kMain, "inputs", Category::inputs);
        hand_over(kMain, stream_, ids_);
        hand_over(kMain, stream_, targets_);
        x_ = program.take(shape.rows(shape.width), stream, "tokens");
    }

    void advance() {
        const std::size_t layers = shape_.layers;
        if (done_ < layers) {
            kept_[done_] = forward_block(program_, shape_, stream_, done_, x_);
        } else {
            if (done_ == layers) gradient_ = head(program_, shape_, stream_, std::move(x_));
            const std::size_t layer = 2 * layers - 1 - done_;
            backward_block(program_, shape_, stream_, layer, kept_[layer], gradient_);
            add_gradients(layer);
        }
        if (++done_ == 2 * layers) finish();
    }
    bool done() const { return done_ == 2 * shape_.layers; }

  private:
    /// Made on one stream, read on the other.
    void hand_over(memory::StreamId from, memory::StreamId to, const Piece& piece) {
        if (from == to) return;
        program_.wait(to, from);
        program_.use(piece, to);
    }
    /// The block's gradients are made on the pipeline's stream and summed on the main one.
    void add_gradients(std::size_t layer) {
        for (const std::size_t bytes : block_parameters(shape_)) {
            const Piece piece = program_.take(bytes, stream_, block_path(layer), Category::gradients);
            hand_over(stream_, kMain, piece);
        }
    }
    void finish() {
        gradient_.reset();
        ids_.reset();
        targets_.reset();
    }

    Program& program_;
    GptShape shape_;
    memory::StreamId stream_;
    std::size_t done_ = 0;
    Piece ids_, targets_, x_, gradient_;
    std::vector<std::vector<Piece>> kept_;
};

void step(Program& program, const GptShape& shape, std::size_t number) {
    constexpr std::array<std::size_t, kPipelines> kTimes = {1024, 768, 512, 256};
    program.step();
    std::vector<Pipeline> pipelines;
    pipelines.reserve(kPipelines);
    bool all_done = false;
    for (std::size_t tick = 0; !all_done; ++tick) {
        if (tick % kStagger == 0 && pipelines.size() < kPipelines) {
            GptShape own = shape;
            own.time = kTimes[(pipelines.size() + number) % kPipelines];
            pipelines.emplace_back(program, own, static_cast<memory::StreamId>(pipelines.size()));
        }
        all_done = pipelines.size() == kPipelines;
        for (Pipeline& pipeline : pipelines) {
            if (!pipeline.done()) pipeline.advance();
            all_done = all_done && pipeline.done();
        }
    }
}

}  // namespace

Trace four_streams() {
    const GptShape shape{.batch = 2, .layers = 8};
    Program program("four_streams",
                    "scripted: GPT-2 of 8 layers, 4 micro-batches of 2 x 256 to 1024 tokens under way on 4 streams");
    const Resident resident(program, shape);
    for (std::size_t i = 0; i < 16; ++i) step(program, shape, i);
    return program.trace();
}

}  // namespace headroom::traces
