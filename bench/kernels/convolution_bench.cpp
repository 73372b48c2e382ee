// Convolutions and their gradients as ResNet-50, VGG-16 and a U-Net ask for them, images channels-last. Shows GFLOP/s
// and bytes of scratch. HEADROOM_THREADS is the number of threads (2 by default). bench/peers/compare_convolution.py
// reads the sizes from the names and has PyTorch compute the same.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <headroom/kernels/convolution/convolution.hpp>

#include "floats.hpp"

namespace headroom::kernels {
namespace {

using bench::Memory, bench::thread_count;

View channels_last(Memory& memory, Dtype dtype, const Shape& s) {
    return {memory.data(), dtype, s, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}};
}

/// images, in, size, out, kernel, stride, padding, groups
void convolve(benchmark::State& state, ConvolutionPass pass, Dtype dtype) {
    const std::int64_t n = state.range(0), in = state.range(1), size = state.range(2), out = state.range(3),
                       kernel = state.range(4), stride = state.range(5), padding = state.range(6),
                       groups = state.range(7), to = convolved_size(size, kernel, stride, padding, 1);
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    const Shape x{n, in, size, size}, weight{out, in / groups, kernel, kernel}, y{n, out, to, to};
    Memory of_x(x.numel() * bytes), of_weight(weight.numel() * 4), of_y(y.numel() * bytes);
    Convolution c{.x = channels_last(of_x, dtype, x),
                  .weight = channels_last(of_weight, pass == ConvolutionPass::weight ? Dtype::f32 : dtype, weight),
                  .y = channels_last(of_y, dtype, y),
                  .steps = {.stride = {stride, stride}, .padding = {padding, padding}, .groups = groups},
                  .pass = pass};
    StreamState kept;
    CpuStream stream{thread_count(), &kept};
    Memory scratch(static_cast<std::int64_t>(ConvolutionPlan(stream, c).scratch()));
    for (auto _ : state) ConvolutionPlan(stream, c).run(stream, scratch.data());
    const double work = static_cast<double>(y.numel() * weight.numel() / out);
    state.counters["FLOP/s"] = benchmark::Counter(2 * work, benchmark::Counter::kIsIterationInvariantRate);
    state.counters["scratch"] = static_cast<double>(scratch.values.size() - 64);
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

}  // namespace
}  // namespace headroom::kernels
