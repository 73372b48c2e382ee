// What the tape costs per op on a tiny tensor: recording a chain of a hundred squares, dropping it, differentiating it.
//     core_tape_bench --benchmark_repetitions=11 --benchmark_report_aggregates_only=true
// `time_per_op` is the figure to read; the kernel itself takes some 10 ns of it.
#include <vector>

#include <benchmark/benchmark.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/unary.hpp>

namespace headroom {
namespace {

constexpr int kChain = 100;

Tensor chain(const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < kChain; ++i) y = square(std::move(y));
    return y;
}

void per_op(benchmark::State& state) {
    const auto ops = static_cast<double>(state.iterations()) * kChain;
    state.counters["time_per_op"] = benchmark::Counter(ops, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void RecordAndDrop(benchmark::State& state) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>{1.0f}, {1}).requires_grad_();
    for (auto _ : state) benchmark::DoNotOptimize(chain(x).value());
    per_op(state);
}

void Backward(benchmark::State& state) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>{1.0f}, {1}).requires_grad_();
    for (auto _ : state) {
        state.PauseTiming();
        {
            const Tensor y = chain(x);
            state.ResumeTiming();
            backward(y);
        }
    }
    per_op(state);
}

void Unrecorded(benchmark::State& state) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>{1.0f}, {1});
    const NoGradGuard no_grad(context);
    for (auto _ : state) benchmark::DoNotOptimize(chain(x).value());
    per_op(state);
}

BENCHMARK(RecordAndDrop);
BENCHMARK(Backward);
BENCHMARK(Unrecorded);

}  // namespace
}  // namespace headroom

BENCHMARK_MAIN();
