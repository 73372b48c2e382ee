// Batch normalisation with a ReLU, channels-last f32, as training has it: statistics and result, then the gradients of
// x, weight and bias. Shapes of ResNet-50 at 8 x 224 x 224 and of U-Net at 384 x 384. Bytes: x twice and y; x and dy
// twice and dx. bench/peers/batch_norm_torch.py times the same in PyTorch.
#include <benchmark/benchmark.h>

#include <headroom/kernels/channel_norm/channel_norm.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

struct Images {
    explicit Images(const benchmark::State& state)
        : memory{state.range(0), state.range(2), state.range(2), state.range(1)},
          x(memory),
          y(memory),
          dx(memory),
          weight({memory[3]}),
          bias(weight),
          mean(weight),
          variance(weight) {}
    View seen(Floats& array) const {
        View view = array;
        view.shape = {view.shape[0], view.shape[3], view.shape[1], view.shape[2]};
        view.strides = {view.strides[0], view.strides[3], view.strides[1], view.strides[2]};
        return view;
    }
    StreamState state;
    CpuStream stream{.threads = bench::thread_count(), .state = &state};
    Shape memory;
    Floats x, y, dx, weight, bias, mean, variance;
};

void batch_norm_relu(benchmark::State& state) {
    Images images(state);
    const View x = images.seen(images.x), y = images.seen(images.y), weight = images.weight, bias = images.bias;
    const ChannelMomentsPlan plan(images.stream, x, images.mean, images.variance);
    std::vector<std::byte> scratch(plan.scratch());
    const ChannelNorm norm{
        .mean = images.mean, .variance = images.variance, .weight = &weight, .bias = &bias, .relu = true};
    for (auto _ : state) {
        plan.run(images.stream, scratch.data());
        channel_norm(images.stream, x, norm, nullptr, y);
        benchmark::ClobberMemory();
    }
    bench::moved(state, 3 * images.x.bytes());
}

void batch_norm_relu_gradient(benchmark::State& state) {
    Images images(state);
    const View x = images.seen(images.x), dy = images.seen(images.y), dx = images.seen(images.dx);
    const View weight = images.weight, bias = images.bias;
    ChannelMomentsPlan moments(images.stream, x, images.mean, images.variance);
    std::vector<std::byte> first(moments.scratch());
    moments.run(images.stream, first.data());
    Floats dweight = images.weight, dbias = images.weight;
    const View to_weight = dweight, to_bias = dbias;
    const ChannelNormGradientPlan plan(
        images.stream, {.x = &x, .dy = dy},
        {.mean = images.mean, .variance = images.variance, .weight = &weight, .bias = &bias, .relu = true},
        {.x = &dx, .weight = &to_weight, .bias = &to_bias});
    std::vector<std::byte> scratch(plan.scratch());
    for (auto _ : state) {
        plan.run(images.stream, scratch.data());
        benchmark::ClobberMemory();
    }
    bench::moved(state, 5 * images.x.bytes());
}

// Images, channels, height and width.
void shapes(benchmark::internal::Benchmark* bench) {
    for (const auto& shape : {std::vector<std::int64_t>{8, 64, 112},
                              {8, 64, 56},
                              {8, 256, 56},
                              {8, 512, 28},
                              {8, 1024, 14},
                              {8, 2048, 7},
                              {1, 64, 384},
                              {1, 256, 96},
                              {1, 1024, 24}}) {
        bench->Args(shape);
    }
    bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(batch_norm_relu)->Apply(shapes);
BENCHMARK(batch_norm_relu_gradient)->Apply(shapes);

}  // namespace
}  // namespace headroom::kernels
