// Matrix products as training asks for them: the three of a Linear, at the sizes of two GPTs; tiny ones; batches. Shows
// GFLOP/s, their share of what oneDNN reaches by itself at the same sizes, and bytes of scratch. `--threads` is not a
// flag here: HEADROOM_THREADS chooses (2 by default). With OMP_WAIT_POLICY=passive in the environment, as scripts/bench
// sets it: else OpenMP's threads, which oneDNN alone computes with, go on spinning while ours work.
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>

#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

#include "floats.hpp"
#include "limit.hpp"
#include "product_rate.hpp"

namespace headroom::kernels {
namespace {

using bench::Memory, bench::thread_count;

/// a is [m, k], or its transpose in memory; b likewise.
void product(benchmark::State& state, kernels::Dtype dtype, kernels::Dtype c_dtype, std::int64_t batch, std::int64_t m,
             std::int64_t k, std::int64_t n, bool a_transposed, bool b_transposed, float beta) {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    Memory a(batch * m * k * size), b(batch * k * n * size),
        c(batch * m * n * static_cast<std::int64_t>(size_of(c_dtype)));
    kernels::StreamState kept;
    kernels::CpuStream stream{thread_count(), &kept};
    Matmul matmul;
    matmul.a =
        contiguous_view(a.data(), dtype, a_transposed ? kernels::Shape{batch, k, m} : kernels::Shape{batch, m, k});
    matmul.b =
        contiguous_view(b.data(), dtype, b_transposed ? kernels::Shape{batch, n, k} : kernels::Shape{batch, k, n});
    if (a_transposed) matmul.a = transposed(matmul.a);
    if (b_transposed) matmul.b = transposed(matmul.b);
    matmul.c = contiguous_view(c.data(), c_dtype, {batch, m, n});
    matmul.beta = beta;
    Memory scratch(static_cast<std::int64_t>(MatmulPlan(stream, matmul).scratch()));
    for (auto _ : state) MatmulPlan(stream, matmul).run(stream, scratch.data());
    const double operations = 2.0 * static_cast<double>(batch * m * n * k);
    bench::multiplied(state, operations,
                      bench::product_rate(dtype, batch, m, n, k, a_transposed, b_transposed, c_dtype));
    state.counters["scratch"] = static_cast<double>(scratch.values.size() - 64);
}

void linear_forward(benchmark::State& state, kernels::Dtype dtype) {
    product(state, dtype, dtype, 1, state.range(0), state.range(1), state.range(2), false, true, 0);
}
void linear_dx(benchmark::State& state, kernels::Dtype dtype) {
    product(state, dtype, dtype, 1, state.range(0), state.range(2), state.range(1), false, false, 0);
}
void linear_dw(benchmark::State& state, kernels::Dtype dtype) {
    product(state, dtype, kernels::Dtype::f32, 1, state.range(2), state.range(0), state.range(1), true, false, 1);
}

/// tokens, in, out
void sizes(benchmark::internal::Benchmark* benchmark) {
    benchmark->UseRealTime()->ArgNames({"tokens", "in", "out"});
    benchmark->Args({768, 128, 384})->Args({768, 128, 128})->Args({768, 128, 512})->Args({768, 512, 128});
    benchmark->Args({768, 128, 65})->Args({1024, 768, 768})->Args({1024, 768, 3072})->Args({1024, 3072, 768});
}
BENCHMARK_CAPTURE(linear_forward, f32, kernels::Dtype::f32)->Apply(sizes);
BENCHMARK_CAPTURE(linear_dx, f32, kernels::Dtype::f32)->Apply(sizes);
BENCHMARK_CAPTURE(linear_dw, f32, kernels::Dtype::f32)->Apply(sizes);
BENCHMARK_CAPTURE(linear_forward, bf16, kernels::Dtype::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(linear_dx, bf16, kernels::Dtype::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(linear_dw, bf16, kernels::Dtype::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(linear_forward, f16, kernels::Dtype::f16)->Apply(sizes);

void tiny(benchmark::State& state) {
    product(state, kernels::Dtype::f32, kernels::Dtype::f32, 1, state.range(0), state.range(0), state.range(0), false,
            false, 0);
}
BENCHMARK(tiny)->UseRealTime()->RangeMultiplier(2)->Range(1, 128);

void batched(benchmark::State& state) {
    product(state, kernels::Dtype::f32, kernels::Dtype::f32, 48, state.range(0), 32, state.range(0), false, true, 0);
}
BENCHMARK(batched)->UseRealTime()->Arg(16)->Arg(64)->Arg(256);

void f64(benchmark::State& state) {
    product(state, kernels::Dtype::f64, kernels::Dtype::f64, 1, state.range(0), state.range(0), state.range(0), false,
            false, 0);
}
BENCHMARK(f64)->UseRealTime()->Arg(256);

/// What planning costs once a geometry is known.
void planning(benchmark::State& state) {
    kernels::StreamState kept;
    kernels::Stream stream = kernels::DryStream{2, &kept};
    const Matmul matmul{.a = contiguous_view(nullptr, kernels::Dtype::f32, {12, 64, 128}),
                        .b = transposed(contiguous_view(nullptr, kernels::Dtype::f32, {384, 128})),
                        .c = contiguous_view(nullptr, kernels::Dtype::f32, {12, 64, 384})};
    for (auto _ : state) benchmark::DoNotOptimize(MatmulPlan(stream, matmul).scratch());
}
BENCHMARK(planning);

void sum_of_rows(benchmark::State& state) {
    const std::int64_t rows = state.range(0), columns = state.range(1);
    Memory dy(rows * columns * 4), dbias(columns * 4);
    kernels::StreamState kept;
    kernels::CpuStream stream{thread_count(), &kept};
    const kernels::View from = contiguous_view(dy.data(), kernels::Dtype::f32, {rows, columns});
    const kernels::View to = contiguous_view(dbias.data(), kernels::Dtype::f32, {columns});
    for (auto _ : state) SumPlan(stream, from, 1.0, to, 0).run(stream, nullptr);
    bench::moved(state, rows * columns * 4);
}
BENCHMARK(sum_of_rows)->UseRealTime()->Args({768, 128})->Args({768, 512})->Args({768, 65})->Args({1024, 3072});

}  // namespace
}  // namespace headroom::kernels
