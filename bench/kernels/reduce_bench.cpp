// Reductions in f32: the gradient of a bias (column sums), means of rows, a sum over everything. Bytes are those of the
// input.
#include <benchmark/benchmark.h>

#include <headroom/kernels/reduce/reduce.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

void reduce_to(benchmark::State& state, const kernels::Shape& x_shape, const kernels::Shape& y_shape) {
    kernels::StreamState threads;
    kernels::CpuStream stream{.threads = bench::thread_count(), .state = &threads};
    Floats x(x_shape), y(y_shape);
    for (auto _ : state) {
        SumPlan(stream, x, 1.0, y, 1).run(stream, nullptr);
        benchmark::ClobberMemory();
    }
    bench::moved(state, x.bytes());
}

void columns(benchmark::State& state) { reduce_to(state, {state.range(0), state.range(1)}, {state.range(1)}); }
BENCHMARK(columns)->Args({768, 128})->Args({768, 512})->Args({1024, 3072})->Args({100000, 8})->UseRealTime();

void rows(benchmark::State& state) { reduce_to(state, {state.range(0), state.range(1)}, {state.range(0), 1}); }
BENCHMARK(rows)->Args({768, 128})->Args({1024, 3072})->Args({100000, 8})->UseRealTime();

void everything(benchmark::State& state) { reduce_to(state, {state.range(0)}, {1}); }
BENCHMARK(everything)->Arg(1000)->Arg(1000000)->Arg(30000000)->UseRealTime();

}  // namespace
}  // namespace headroom::kernels
