// Cross-entropy and softmax in f32, forward and gradient, with the classes of a character and of a GPT-2 vocabulary.
// Items are logits. The gradient of cross-entropy is written over the logits, as a loss over chunks does.
#include <benchmark/benchmark.h>

#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/softmax/softmax.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

struct Loss {
    explicit Loss(const benchmark::State& state)
        : shape{state.range(0), state.range(1)},
          logits(shape),
          output(shape),
          lse({shape[0], 2}),
          loss(kernels::Shape{}),
          terms(contiguous_view(&count_of_terms, kernels::Dtype::f64, {})),
          indices(static_cast<std::size_t>(shape[0])),
          targets(contiguous_view(indices.data(), kernels::Dtype::i64, {shape[0]})) {
        for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i * 31) % shape[1];
    }
    /// `arrays` like the logits are read or written.
    void count(benchmark::State& state, std::int64_t arrays) { bench::moved(state, arrays * logits.bytes()); }

    kernels::StreamState state;
    kernels::CpuStream stream{.threads = bench::thread_count(), .state = &state};
    kernels::Shape shape;
    Floats logits, output, lse, loss;
    double count_of_terms = 0;
    kernels::View terms;
    std::vector<std::int64_t> indices;
    kernels::View targets;
};

void cross_entropy_forward(benchmark::State& state) {
    Loss loss(state);
    for (auto _ : state) {
        CrossEntropyPlan(loss.stream, loss.logits, loss.targets, {}, {}, loss.loss, loss.terms, 0, loss.lse)
            .run(loss.stream, nullptr);
        benchmark::ClobberMemory();
    }
    loss.count(state, 1);
}

void cross_entropy_gradient(benchmark::State& state) {
    Loss loss(state);
    for (auto _ : state) {
        cross_entropy_backward(loss.stream, loss.logits, loss.targets, {}, {}, loss.lse, loss.loss, loss.logits, 0);
        benchmark::ClobberMemory();
    }
    loss.count(state, 2);
}

void softmax_forward(benchmark::State& state) {
    Loss loss(state);
    for (auto _ : state) {
        softmax(loss.stream, loss.logits, loss.output);
        benchmark::ClobberMemory();
    }
    loss.count(state, 2);
}

void softmax_gradient(benchmark::State& state) {
    Loss loss(state);
    for (auto _ : state) {
        softmax_backward(loss.stream, loss.output, loss.logits, loss.logits, 0);
        benchmark::ClobberMemory();
    }
    loss.count(state, 3);
}

BENCHMARK(cross_entropy_forward)->Args({768, 65})->Args({1024, 50257})->UseRealTime();
BENCHMARK(cross_entropy_gradient)->Args({768, 65})->Args({1024, 50257})->UseRealTime();
BENCHMARK(softmax_forward)->Args({768, 65})->Args({768, 1000})->Args({1024, 50257})->UseRealTime();
BENCHMARK(softmax_gradient)->Args({768, 65})->Args({768, 1000})->Args({1024, 50257})->UseRealTime();

}  // namespace
}  // namespace headroom::kernels
