#pragma once
// Requests of training steps as they would be recorded, at the sizes of a GPT: layers whose activations are kept for
// the backward pass, short-lived scratch, gradients that live until the optimizer has used them. For tests and
// benchmarks of static placement. Nothing here is random but what `seed` varies.
//
//     StepRecorder recorder = record_gpt_step({.layers = 12, .micro_batches = 4});
//     Plan plan(recorder.requests());
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <headroom/memory/plan/lifetime.hpp>
#include <headroom/memory/plan/step_recorder.hpp>

namespace headroom {

struct GptStep {
    int layers = 12;
    int micro_batches = 1;
    std::size_t batch = 8, length = 256, width = 768, vocabulary = 50304;
    bool checkpoint = false;    ///< layers keep their input alone and run forward again in the backward pass
    bool offload = false;       ///< activations leave through stream 1 and come back for the backward pass
    int experts = 0;            ///< of each layer's MLP; tokens are shared out at random
    bool lengths_vary = false;  ///< from micro-batch to micro-batch
    unsigned seed = 1;
};

class GptStepWriter {
  public:
    explicit GptStepWriter(const GptStep& step) : step_(step), random_(step.seed) {}

    StepRecorder write() {
        for (int i = 0; i < step_.micro_batches; ++i) micro_batch(i == 0);
        const Number norm = get(256);
        for (const Number gradient : gradients_) {
            put(get(4096));
            put(gradient);
        }
        put(norm);
        return std::move(recorder_);
    }

  private:
    using Number = std::uint32_t;
    struct Kept {
        Number number;
        std::size_t bytes;
    };
    using Activations = std::vector<Kept>;

    Number get(std::size_t bytes, StreamId stream = 0) { return recorder_.on_allocate((bytes + 63) / 64 * 64, stream); }
    void put(Number number) { recorder_.on_free(number); }
    void keep(Activations& kept, std::size_t bytes) { kept.push_back({get(bytes), bytes}); }
    void scratch(std::size_t bytes) { put(get(bytes)); }

    /// Appends all that the backward pass needs; the last one is the output.
    void forward(Activations& kept, std::size_t tokens) {
        const std::size_t row = tokens * step_.width * 4;
        norm(kept, tokens);
        keep(kept, 3 * row);          // queries, keys, values
        keep(kept, tokens * 12 * 4);  // logarithms of sums
        scratch(64 * 12 * step_.length * 4);
        keep(kept, row);  // attention's output
        const Number projected = get(row);
        keep(kept, row);  // first residual sum
        put(projected);
        norm(kept, tokens);
        for (const std::size_t share : shares(tokens)) {
            keep(kept, 4 * share * step_.width * 4);
            keep(kept, 4 * share * step_.width * 4);
        }
        const Number down = get(row);
        keep(kept, row);
        put(down);
    }

    void norm(Activations& kept, std::size_t tokens) {
        keep(kept, tokens * 4);
        keep(kept, tokens * 4);
        keep(kept, tokens * step_.width * 4);
    }

    std::vector<std::size_t> shares(std::size_t tokens) {
        if (step_.experts == 0) return {tokens};
        std::vector<std::size_t> shares;
        for (int i = 0; i < step_.experts; ++i) shares.push_back(1 + random_() % (2 * tokens / step_.experts));
        return shares;
    }

    void gradient(std::size_t bytes, bool first) {
        if (first) {
            gradients_.push_back(get(bytes));
        } else {
            scratch(bytes);  // added to the first micro-batch's
        }
    }

    /// Frees what was kept from the last to the first; `above` is the gradient of the output. Returns the input's.
    Number backward(Activations& kept, Number above, std::size_t tokens, bool first) {
        const std::size_t row = tokens * step_.width * 4;
        while (!kept.empty()) {
            const Number below = get(kept.back().bytes);
            if (kept.back().bytes >= row) gradient(kept.back().bytes / tokens * step_.width, first);
            scratch(2048);
            put(above);
            put(kept.back().number);
            kept.pop_back();
            above = below;
        }
        const Number input = get(row);
        put(above);
        return input;
    }

    void move_all(Activations& kept, StreamId to) {
        for (Kept& tensor : kept) {
            const Number moved = get(tensor.bytes, to);
            put(tensor.number);
            tensor.number = moved;
        }
    }

    void micro_batch(bool first) {
        const std::size_t length = step_.lengths_vary ? step_.length / 4 + random_() % step_.length : step_.length;
        const std::size_t tokens = step_.batch * length;
        const Number ids = get(tokens * 8), embedded = get(tokens * step_.width * 4);
        std::vector<Activations> layers(static_cast<std::size_t>(step_.layers));
        for (Activations& kept : layers) {
            forward(kept, tokens);
            const std::size_t drop = step_.checkpoint ? kept.size() - 1 : 0;
            for (std::size_t i = 0; i < drop; ++i) put(kept[i].number);
            kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(drop));
            if (step_.offload) leave(kept);
        }
        const Number logits = get(tokens * step_.vocabulary * 4);
        const Number loss = get(64);
        Number above = get(tokens * step_.vocabulary * 4);
        put(logits);
        gradient(step_.vocabulary * step_.width * 4, first);
        for (auto kept = layers.rbegin(); kept != layers.rend(); ++kept) {
            if (step_.offload) move_all(*kept = left_.back(), 1), left_.pop_back();
            if (step_.checkpoint) {
                Activations again;
                forward(again, tokens);
                put(again.back().number);
                again.back() = kept->back();
                *kept = again;
            }
            above = backward(*kept, above, tokens, first);
        }
        for (const Number number : {above, embedded, ids, loss}) put(number);
    }

    /// The device's copies go, one at a time, through a staging buffer of the copy stream.
    void leave(Activations& kept) {
        for (Kept& tensor : kept) {
            const Number staging = get(tensor.bytes, 1);
            put(tensor.number);
            put(staging);
            tensor.number = get(64);  // what remembers the copy on the host
        }
        left_.push_back(std::move(kept));
        kept.clear();
    }

    GptStep step_;
    std::mt19937 random_;
    StepRecorder recorder_;
    std::vector<Number> gradients_;
    std::vector<Activations> left_;  ///< layers whose activations are away
};

inline StepRecorder record_gpt_step(const GptStep& step) { return GptStepWriter(step).write(); }

/// `count` requests of 64 to 64,000 bytes, about `live` at a time, freed in random order: far from training.
inline StepRecorder record_random_step(std::size_t count, std::size_t live, unsigned seed) {
    std::mt19937 random(seed);
    StepRecorder recorder;
    std::vector<std::uint32_t> numbers;
    while (recorder.requests().size() < count) {
        if (numbers.size() < live / 2 + random() % live) {
            numbers.push_back(recorder.on_allocate(64 * (1 + random() % 1000), random() % 4));
        } else {
            std::swap(numbers[random() % numbers.size()], numbers.back());
            recorder.on_free(numbers.back());
            numbers.pop_back();
        }
    }
    for (const std::uint32_t number : numbers) recorder.on_free(number);
    return recorder;
}

inline std::vector<Lifetime> lifetimes_of(const StepRecorder& recorder) {
    std::vector<Lifetime> lifetimes;
    for (const auto& [bytes, stream, end] : recorder.requests()) {
        const auto begin = static_cast<std::uint32_t>(lifetimes.size());
        lifetimes.push_back({bytes, begin, end});
    }
    return lifetimes;
}

}  // namespace headroom
