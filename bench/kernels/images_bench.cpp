// Pools, interpolation and padding of channels-last images in f32, at the sizes of ResNet-50, VGG and U-Net, forward
// and gradient. Bytes: those of the two images. bench/peers/images_torch.py times PyTorch's. HEADROOM_THREADS: 2.
#include <benchmark/benchmark.h>

#include <headroom/kernels/pool/max_pool.hpp>
#include <headroom/kernels/resample/resample.hpp>

#include "floats.hpp"
#include "limit.hpp"

namespace headroom::kernels {
namespace {

using bench::Floats;

/// [N, C, H, W] with the channels last in memory.
struct Pixels {
    Pixels(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) : floats({n, h, w, c}) {}
    operator View() {
        View x = floats;
        x.shape = {x.shape[0], x.shape[3], x.shape[1], x.shape[2]};
        x.strides = {x.strides[0], x.strides[3], x.strides[1], x.strides[2]};
        return x;
    }
    Floats floats;
};

struct Call {
    Call(const benchmark::State& state, std::int64_t height, std::int64_t width)
        : x(state.range(0), state.range(1), state.range(2), state.range(2)),
          y(state.range(0), state.range(1), height, width) {}
    void count(benchmark::State& state) const { bench::moved(state, x.floats.bytes() + y.floats.bytes()); }
    StreamState own;
    CpuStream stream{.threads = bench::thread_count(), .state = &own};
    Pixels x, y;
};

/// Arguments: images, channels, size, kernel, stride, padding.
void max_pool(benchmark::State& state, bool gradient) {
    const PoolAxis axis{.kernel = state.range(3), .stride = state.range(4), .padding = state.range(5)};
    const std::int64_t size = (state.range(2) + 2 * axis.padding - axis.kernel) / axis.stride + 1;
    Call call(state, size, size);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(call.y.floats.bytes() / 4));
    View place = call.y;
    place.data = bytes.data(), place.dtype = Dtype::u8;
    kernels::max_pool(call.stream, call.x, {axis, axis}, call.y, place);
    for (auto _ : state) {
        if (gradient) {
            max_pool_gradient(call.stream, call.y, place, {axis, axis}, 0, call.x);
        } else {
            kernels::max_pool(call.stream, call.x, {axis, axis}, call.y, place);
        }
        benchmark::ClobberMemory();
    }
    call.count(state);
}

void resample(benchmark::State& state, AxisMap map, bool gradient) {
    map.back = gradient;
    Call call(state, map.out, map.out);
    for (auto _ : state) {
        gradient ? kernels::resample(call.stream, call.y, map, map, 0, call.x)
                 : kernels::resample(call.stream, call.x, map, map, 0, call.y);
        benchmark::ClobberMemory();
    }
    call.count(state);
}

void max_pool_forward(benchmark::State& state) { max_pool(state, false); }
void max_pool_backward(benchmark::State& state) { max_pool(state, true); }
void avg_pool_forward(benchmark::State& state) {
    resample(state, AxisMap::window(state.range(2), state.range(2) / 2, 2, 2, 0, true), false);
}
void avg_pool_backward(benchmark::State& state) {
    resample(state, AxisMap::window(state.range(2), state.range(2) / 2, 2, 2, 0, true), true);
}
void global_avg_pool_forward(benchmark::State& state) { resample(state, AxisMap::adaptive(state.range(2), 1), false); }
void global_avg_pool_backward(benchmark::State& state) { resample(state, AxisMap::adaptive(state.range(2), 1), true); }
void bilinear_forward(benchmark::State& state) {
    resample(state, AxisMap::linear(state.range(2), 2 * state.range(2), true), false);
}
void bilinear_backward(benchmark::State& state) {
    resample(state, AxisMap::linear(state.range(2), 2 * state.range(2), true), true);
}
void nearest_forward(benchmark::State& state) {
    resample(state, AxisMap::nearest(state.range(2), 2 * state.range(2)), false);
}
void nearest_backward(benchmark::State& state) {
    resample(state, AxisMap::nearest(state.range(2), 2 * state.range(2)), true);
}
void reflect_forward(benchmark::State& state) {
    resample(state, AxisMap::padding(AxisMap::Kind::reflect, state.range(2), 3, 3), false);
}
void reflect_backward(benchmark::State& state) {
    resample(state, AxisMap::padding(AxisMap::Kind::reflect, state.range(2), 3, 3), true);
}

BENCHMARK(max_pool_forward)->Args({8, 64, 112, 3, 2, 1})->Args({4, 64, 224, 2, 2, 0})->UseRealTime();
BENCHMARK(max_pool_backward)->Args({8, 64, 112, 3, 2, 1})->Args({4, 64, 224, 2, 2, 0})->UseRealTime();
BENCHMARK(avg_pool_forward)->Args({8, 64, 112})->UseRealTime();
BENCHMARK(avg_pool_backward)->Args({8, 64, 112})->UseRealTime();
BENCHMARK(global_avg_pool_forward)->Args({8, 2048, 7})->UseRealTime();
BENCHMARK(global_avg_pool_backward)->Args({8, 2048, 7})->UseRealTime();
BENCHMARK(bilinear_forward)->Args({1, 64, 192})->Args({1, 512, 24})->UseRealTime();
BENCHMARK(bilinear_backward)->Args({1, 64, 192})->Args({1, 512, 24})->UseRealTime();
BENCHMARK(nearest_forward)->Args({1, 64, 192})->UseRealTime();
BENCHMARK(nearest_backward)->Args({1, 64, 192})->UseRealTime();
BENCHMARK(reflect_forward)->Args({1, 64, 256})->UseRealTime();
BENCHMARK(reflect_backward)->Args({1, 64, 256})->UseRealTime();

}  // namespace
}  // namespace headroom::kernels
