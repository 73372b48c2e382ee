// Embedding in f32 at the sizes of a character GPT and of GPT-2, forward and gradient (added to what is there). Bytes
// are those of the rows that are copied.
#include <benchmark/benchmark.h>

#include <headroom/kernels/embedding/embedding.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

struct Lookup {
    explicit Lookup(const benchmark::State& state)
        : table({state.range(1), state.range(2)}),
          rows({state.range(0), state.range(2)}),
          indices(static_cast<std::size_t>(state.range(0))),
          ids(contiguous_view(indices.data(), kernels::Dtype::i64, {state.range(0)})) {
        for (std::size_t i = 0; i < indices.size(); ++i) {
            indices[i] = static_cast<std::int64_t>(i * 7919) % state.range(1);
        }
    }
    kernels::StreamState state;
    kernels::CpuStream stream{.threads = bench::thread_count(), .state = &state};
    Floats table, rows;
    std::vector<std::int64_t> indices;
    kernels::View ids;
};

void forward(benchmark::State& state) {
    Lookup lookup(state);
    for (auto _ : state) {
        embedding(lookup.stream, lookup.table, lookup.ids, lookup.rows);
        benchmark::ClobberMemory();
    }
    bench::moved(state, lookup.rows.bytes());
}

void gradient(benchmark::State& state) {
    Lookup lookup(state);
    const EmbeddingGradientPlan plan(lookup.stream, lookup.ids, lookup.rows, lookup.table, 1);
    std::vector<std::byte> scratch(plan.scratch());
    for (auto _ : state) {
        plan.run(lookup.stream, scratch.data());
        benchmark::ClobberMemory();
    }
    bench::moved(state, lookup.rows.bytes());
}

BENCHMARK(forward)->Args({768, 65, 128})->Args({1024, 50257, 768})->UseRealTime();
BENCHMARK(gradient)->Args({768, 65, 128})->Args({1024, 50257, 768})->UseRealTime();

}  // namespace
}  // namespace headroom::kernels
