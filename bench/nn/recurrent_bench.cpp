// A training step of two recurrent layers, forward and backward: 512 wide, 128 steps, a batch of 16.
//     nn_recurrent_bench --benchmark_filter='Lstm/0' --benchmark_repetitions=5
// `peak` is what the step has at most, weights, x and their gradients included; `kept` what forward leaves for
// backward. The argument is `checkpoint`: 0, or -1 for the square root of time.
#include <benchmark/benchmark.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/memory/memory_scope.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/lstm.hpp>

namespace headroom {
namespace {

constexpr std::int64_t kTime = 128, kBatch = 16, kWidth = 512, kLayers = 2;

template <class Net>
void step(benchmark::State& state) {
    Context context = Context::cpu({.threads = 2});
    memory::MemoryScope all(context.memory());
    Parameters parameters(context);
    const Net net(nn::Path(parameters) / "net",
                  {.in = kWidth, .width = kWidth, .layers = kLayers, .checkpoint = state.range(0)});
    const Tensor x = randn(context, {kTime, kBatch, kWidth});
    parameters.materialize();
    std::int64_t kept = 0;
    for (auto _ : state) {
        const std::int64_t before = all.live();
        const Tensor y = net(x).output;
        kept = all.live() - before;
        backward(sum(y));
        parameters.zero_grad();
    }
    state.counters["peak"] = static_cast<double>(all.peak());
    state.counters["kept"] = static_cast<double>(kept);
}

void settings(benchmark::internal::Benchmark* of) {
    of->Arg(0)->Arg(-1)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}

BENCHMARK(step<nn::Lstm>)->Name("Lstm")->Apply(settings);
BENCHMARK(step<nn::Gru>)->Name("Gru")->Apply(settings);

}  // namespace
}  // namespace headroom
