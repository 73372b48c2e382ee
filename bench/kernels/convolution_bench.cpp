// Convolutions and their gradients as ResNet-50, VGG-16 and a U-Net ask for them, images channels-last. Shows GFLOP/s
// and bytes of scratch; `err` also the error of normal draws, as a root of a mean of squares over that of the result in
// f64. HEADROOM_THREADS is the number of threads (2 by default). bench/peers/compare_convolution.py reads the sizes
// from the names and has PyTorch compute the same.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <headroom/kernels/convolution/convolution.hpp>

#include "floats.hpp"
#include "limit.hpp"
#include "product_rate.hpp"

namespace headroom::kernels {
namespace {

using bench::Memory, bench::thread_count;

View channels_last(Memory& memory, Dtype dtype, const Shape& s) {
    return {memory.data(), dtype, s, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}};
}

/// images, in, size, out, kernel, stride, padding, groups
struct Sizes {
    explicit Sizes(const benchmark::State& state)
        : x{state.range(0), state.range(1), state.range(2), state.range(2)},
          weight{state.range(3), state.range(1) / state.range(7), state.range(4), state.range(4)},
          steps{.stride = {state.range(5), state.range(5)},
                .padding = {state.range(6), state.range(6)},
                .groups = state.range(7)},
          y(convolved_shape(x, weight, steps)) {}

    Shape x, weight;
    ConvolutionSteps steps;
    Shape y;
};

void time(benchmark::State& state, const Sizes& sizes, const Convolution& c) {
    StreamState kept;
    CpuStream stream{thread_count(), &kept};
    Memory scratch(static_cast<std::int64_t>(ConvolutionPlan(stream, c).scratch()));
    for (auto _ : state) ConvolutionPlan(stream, c).run(stream, scratch.data());
    const double work = static_cast<double>(sizes.y.numel() * sizes.weight.numel() / sizes.weight[0]);
    bench::multiplied(state, 2 * work, bench::product_rate(c.x.dtype));
    state.counters["scratch"] = static_cast<double>(scratch.values.size() - 64);
}

void convolve(benchmark::State& state, ConvolutionPass pass, Dtype dtype) {
    const Sizes sizes(state);
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    Memory x(sizes.x.numel() * bytes), weight(sizes.weight.numel() * 4), y(sizes.y.numel() * bytes);
    const Dtype of_weight = pass == ConvolutionPass::weight ? Dtype::f32 : dtype;
    time(state, sizes,
         {.x = channels_last(x, dtype, sizes.x),
          .weight = channels_last(weight, of_weight, sizes.weight),
          .y = channels_last(y, dtype, sizes.y),
          .steps = sizes.steps,
          .pass = pass});
}

/// The same numbers in f32 and f64.
struct Draws {
    Draws(const Shape& s, std::mt19937_64& engine) : shape(s), narrow(s.numel() * 4), wide(s.numel() * 8) {
        std::normal_distribution<float> normal;
        for (std::int64_t i = 0; i < s.numel(); ++i) f64()[i] = f32()[i] = normal(engine);
    }
    float* f32() { return reinterpret_cast<float*>(narrow.data()); }
    double* f64() { return reinterpret_cast<double*>(wide.data()); }
    View view(Dtype dtype) { return channels_last(dtype == Dtype::f32 ? narrow : wide, dtype, shape); }
    double error() {
        double squares = 0, errors = 0;
        for (std::int64_t i = 0; i < shape.numel(); ++i) {
            squares += f64()[i] * f64()[i];
            errors += (f32()[i] - f64()[i]) * (f32()[i] - f64()[i]);
        }
        return std::sqrt(errors / squares);
    }

    Shape shape;
    Memory narrow, wide;
};

void err(benchmark::State& state, ConvolutionPass pass) {
    const Sizes sizes(state);
    std::mt19937_64 engine(1);
    Draws x(sizes.x, engine), weight(sizes.weight, engine), y(sizes.y, engine);
    const auto of = [&](Dtype dtype) {
        return Convolution{
            .x = x.view(dtype), .weight = weight.view(dtype), .y = y.view(dtype), .steps = sizes.steps, .pass = pass};
    };
    time(state, sizes, of(Dtype::f32));
    CpuStream stream{thread_count()};
    const ConvolutionPlan exact(stream, of(Dtype::f64));
    Memory scratch(static_cast<std::int64_t>(exact.scratch()));
    exact.run(stream, scratch.data());
    state.counters["error"] = (pass == ConvolutionPass::forward ? y
                               : pass == ConvolutionPass::data  ? x
                                                                : weight)
                                  .error();
}

void sizes(benchmark::internal::Benchmark* benchmark) {
    benchmark->UseRealTime()->ArgNames({"n", "in", "size", "out", "kernel", "stride", "padding", "groups"});
    // ResNet-50
    benchmark->Args({8, 3, 224, 64, 7, 2, 3, 1});
    benchmark->Args({8, 64, 56, 64, 1, 1, 0, 1})->Args({8, 64, 56, 64, 3, 1, 1, 1})->Args({8, 64, 56, 256, 1, 1, 0, 1});
    benchmark->Args({8, 256, 56, 64, 1, 1, 0, 1})->Args({8, 128, 56, 128, 3, 2, 1, 1});
    benchmark->Args({8, 256, 56, 512, 1, 2, 0, 1})->Args({8, 128, 28, 128, 3, 1, 1, 1});
    benchmark->Args({8, 128, 28, 512, 1, 1, 0, 1})->Args({8, 256, 14, 256, 3, 1, 1, 1});
    benchmark->Args({8, 1024, 14, 256, 1, 1, 0, 1})->Args({8, 512, 7, 512, 3, 1, 1, 1});
    benchmark->Args({8, 512, 7, 2048, 1, 1, 0, 1});
    // VGG-16
    benchmark->Args({4, 3, 224, 64, 3, 1, 1, 1})->Args({4, 64, 224, 64, 3, 1, 1, 1});
    benchmark->Args({4, 128, 112, 128, 3, 1, 1, 1})->Args({4, 256, 56, 256, 3, 1, 1, 1});
    benchmark->Args({4, 512, 28, 512, 3, 1, 1, 1})->Args({4, 512, 14, 512, 3, 1, 1, 1});
    // U-Net
    benchmark->Args({1, 64, 384, 64, 3, 1, 1, 1})->Args({1, 128, 384, 64, 3, 1, 1, 1});
    benchmark->Args({1, 128, 192, 128, 3, 1, 1, 1})->Args({1, 256, 96, 256, 3, 1, 1, 1});
    benchmark->Args({1, 1024, 48, 512, 3, 1, 1, 1})->Args({1, 1024, 24, 1024, 3, 1, 1, 1});
    benchmark->Args({1, 512, 48, 1024, 2, 2, 0, 1})->Args({1, 64, 384, 4, 1, 1, 0, 1});
    // MobileNet's
    benchmark->Args({8, 96, 56, 96, 3, 1, 1, 96});
}
BENCHMARK_CAPTURE(convolve, forward_f32, ConvolutionPass::forward, Dtype::f32)->Apply(sizes);
BENCHMARK_CAPTURE(convolve, data_f32, ConvolutionPass::data, Dtype::f32)->Apply(sizes);
BENCHMARK_CAPTURE(convolve, weight_f32, ConvolutionPass::weight, Dtype::f32)->Apply(sizes);
BENCHMARK_CAPTURE(convolve, forward_bf16, ConvolutionPass::forward, Dtype::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(convolve, data_bf16, ConvolutionPass::data, Dtype::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(convolve, weight_bf16, ConvolutionPass::weight, Dtype::bf16)->Apply(sizes);

void sizes_of_errors(benchmark::internal::Benchmark* benchmark) {
    benchmark->UseRealTime()->ArgNames({"n", "in", "size", "out", "kernel", "stride", "padding", "groups"});
    for (const std::int64_t channels : {64, 256, 1024}) benchmark->Args({2, channels, 14, channels, 3, 1, 1, 1});
    benchmark->Args({2, 128, 28, 128, 3, 2, 1, 1});                                    // strided
    benchmark->Args({2, 3, 64, 64, 7, 2, 3, 1})->Args({1, 512, 24, 256, 2, 2, 0, 1});  // a stem, a step up
    benchmark->Args({2, 512, 28, 32, 3, 1, 1, 1})->Args({2, 512, 28, 20, 3, 1, 1, 1});
    benchmark->Args({2, 2048, 14, 512, 1, 1, 0, 1})->Args({8, 64, 56, 64, 1, 1, 0, 1});  // 1 x 1
    benchmark->Args({2, 256, 14, 256, 3, 1, 1, 8})->Args({8, 96, 56, 96, 3, 1, 1, 96});  // groups, depthwise
    benchmark->Args({2, 40, 14, 40, 3, 1, 1, 1})->Args({1, 64, 256, 64, 3, 1, 1, 1});    // odd, large
}
BENCHMARK_CAPTURE(err, forward_f32, ConvolutionPass::forward)->Apply(sizes_of_errors);
BENCHMARK_CAPTURE(err, data_f32, ConvolutionPass::data)->Apply(sizes_of_errors);
BENCHMARK_CAPTURE(err, weight_f32, ConvolutionPass::weight)->Apply(sizes_of_errors);

}  // namespace
}  // namespace headroom::kernels
