// One step of AdamW and SGD and the norm of the gradients, in f32. Bytes are all that is read and written. `copy` is
// what memory allows.
#include <cstring>

#include <benchmark/benchmark.h>

#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

struct Range {
    explicit Range(const benchmark::State& state)
        : parameter({state.range(0)}), gradient({state.range(0)}), first({state.range(0)}), second({state.range(0)}) {
        auto* v = second.view().as<float>();
        for (std::int64_t i = 0; i < state.range(0); ++i) v[i] *= v[i];
    }
    kernels::StreamState state;
    kernels::CpuStream stream{.threads = bench::thread_count(), .state = &state};
    Floats parameter, gradient, first, second;
    double speed = 1e-3, factor = 0.5, taken = 9;
    kernels::View rate = contiguous_view(&speed, kernels::Dtype::f64, {}),
                  multiplier = contiguous_view(&factor, kernels::Dtype::f64, {}),
                  steps = contiguous_view(&taken, kernels::Dtype::f64, {});
};

void adamw_step(benchmark::State& state) {
    Range range(state);
    for (auto _ : state) {
        adamw(range.stream, {}, range.rate, range.multiplier, range.steps, range.gradient, range.parameter, range.first,
              range.second);
        benchmark::ClobberMemory();
    }
    bench::moved(state, 7 * range.parameter.bytes());
}

void sgd_step(benchmark::State& state) {
    Range range(state);
    const kernels::View velocity = range.first;
    for (auto _ : state) {
        sgd(range.stream, {.momentum = 0.9}, range.rate, range.multiplier, range.gradient, range.parameter, &velocity);
        benchmark::ClobberMemory();
    }
    bench::moved(state, 5 * range.parameter.bytes());
}

void squares(benchmark::State& state) {
    Range range(state);
    double result = 0;
    const View to = contiguous_view(&result, kernels::Dtype::f64, {});
    for (auto _ : state) {
        SumOfSquaresPlan(range.stream, range.gradient, to, 0).run(range.stream, nullptr);
        benchmark::DoNotOptimize(result);
    }
    bench::moved(state, range.gradient.bytes());
}

void finite(benchmark::State& state) {
    Range range(state);
    for (auto _ : state) benchmark::DoNotOptimize(all_finite(range.stream, range.gradient));
    bench::moved(state, range.gradient.bytes());
}

void copy(benchmark::State& state) {
    Range range(state);
    const kernels::View from = range.gradient, to = range.parameter;
    const std::int64_t pieces = 16;
    for (auto _ : state) {
        parallel_for(range.stream, pieces, from.numel(), [&](std::int64_t piece) {
            const std::int64_t begin = from.numel() * piece / pieces, end = from.numel() * (piece + 1) / pieces;
            std::memcpy(to.at(begin), from.at(begin), static_cast<std::size_t>(end - begin) * sizeof(float));
        });
        benchmark::ClobberMemory();
    }
    bench::moved(state, 2 * range.gradient.bytes());
}

BENCHMARK(adamw_step)->Arg(1000000)->Arg(30000000)->UseRealTime();
BENCHMARK(sgd_step)->Arg(1000000)->Arg(30000000)->UseRealTime();
BENCHMARK(squares)->Arg(1000000)->Arg(30000000)->UseRealTime();
BENCHMARK(finite)->Arg(1000000)->Arg(30000000)->UseRealTime();
BENCHMARK(copy)->Arg(1000000)->Arg(30000000)->UseRealTime();

}  // namespace
}  // namespace headroom::kernels
