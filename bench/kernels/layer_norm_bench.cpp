// Layer and RMS normalisation in f32, forward and gradient of everything (added to what is there). Bytes: x and y; x,
// dy and dx twice.
#include <benchmark/benchmark.h>

#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

struct Layer {
    explicit Layer(const benchmark::State& state)
        : shape{state.range(0), state.range(1)},
          x(shape),
          y(shape),
          dy(shape),
          dx(shape),
          gamma({shape[1]}),
          beta({shape[1]}),
          dgamma({shape[1]}),
          dbeta({shape[1]}),
          mean({shape[0]}),
          rstd({shape[0]}) {}
    kernels::StreamState state;
    kernels::CpuStream stream{.threads = bench::thread_count(), .state = &state};
    kernels::Shape shape;
    Floats x, y, dy, dx, gamma, beta, dgamma, dbeta, mean, rstd;
};

void layer_norm_forward(benchmark::State& state) {
    Layer layer(state);
    const kernels::View gamma = layer.gamma, beta = layer.beta;
    for (auto _ : state) {
        layer_norm(layer.stream, layer.x, &gamma, &beta, 1e-5, layer.y, layer.mean, layer.rstd);
        benchmark::ClobberMemory();
    }
    bench::moved(state, 2 * layer.x.bytes());
}

void layer_norm_gradient(benchmark::State& state) {
    Layer layer(state);
    const kernels::View gamma = layer.gamma, dx = layer.dx, dgamma = layer.dgamma, dbeta = layer.dbeta;
    const LayerNormGradientPlan plan(layer.stream, layer.x, layer.dy, &gamma, layer.mean, layer.rstd,
                                     {.x = {&dx, 1}, .gamma = {&dgamma, 1}, .beta = {&dbeta, 1}});
    std::vector<std::byte> scratch(plan.scratch());
    for (auto _ : state) {
        plan.run(layer.stream, scratch.data());
        benchmark::ClobberMemory();
    }
    bench::moved(state, 4 * layer.x.bytes());
}

void rms_norm_forward(benchmark::State& state) {
    Layer layer(state);
    const kernels::View gamma = layer.gamma;
    for (auto _ : state) {
        rms_norm(layer.stream, layer.x, &gamma, 1e-5, layer.y, layer.rstd);
        benchmark::ClobberMemory();
    }
    bench::moved(state, 2 * layer.x.bytes());
}

void rms_norm_gradient(benchmark::State& state) {
    Layer layer(state);
    const kernels::View gamma = layer.gamma, dx = layer.dx, dgamma = layer.dgamma;
    const RmsNormGradientPlan plan(layer.stream, layer.x, layer.dy, &gamma, layer.rstd,
                                   {.x = {&dx, 1}, .gamma = {&dgamma, 1}});
    std::vector<std::byte> scratch(plan.scratch());
    for (auto _ : state) {
        plan.run(layer.stream, scratch.data());
        benchmark::ClobberMemory();
    }
    bench::moved(state, 4 * layer.x.bytes());
}

BENCHMARK(layer_norm_forward)->Args({768, 128})->Args({1024, 768})->Args({1024, 1024})->UseRealTime();
BENCHMARK(layer_norm_gradient)->Args({768, 128})->Args({1024, 768})->Args({1024, 1024})->UseRealTime();
BENCHMARK(rms_norm_forward)->Args({768, 128})->Args({1024, 768})->Args({1024, 1024})->UseRealTime();
BENCHMARK(rms_norm_gradient)->Args({768, 128})->Args({1024, 768})->Args({1024, 1024})->UseRealTime();

}  // namespace
}  // namespace headroom::kernels
