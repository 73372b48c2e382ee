#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/internal/ranges.cuh>
#include <headroom/kernels/optimizer/internal/updates.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kThreads = 256;

template <class T>
struct AdamWKernel {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kWidth = kWide<T>;

    AdamWStep step;
    const double *learning_rate, *multiplier, *steps;
    FlatRange range;
    const T* gradient;
    T *parameter, *first, *second;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const double factor = *multiplier;
        if (skips_step(factor)) return;  // all threads of all blocks
        const Shared<AdamWFactors<T>> shared = block.shared<AdamWFactors<T>>(1);
        // Powers in f64 are dear where a GPU has few units for it.
        if (block.thread() == 0) shared[0] = AdamWFactors<T>(step, *learning_rate, factor, *steps + 1);
        block.sync();
        const AdamWFactors<T> factors = shared[0];
        range.for_each_vector<kWidth>(block, [&](std::int64_t i) {
            const Vector<T, kWidth> g = block.load<kWidth>(gradient + i);
            Vector<T, kWidth> p = block.load<kWidth>(parameter + i);
            Vector<T, kWidth> m = block.load<kWidth>(first + i);
            Vector<T, kWidth> v = block.load<kWidth>(second + i);
#pragma unroll
            for (int k = 0; k < kWidth; ++k) factors.update(g[k], p[k], m[k], v[k]);
            block.store(parameter + i, p);
            block.store(first + i, m);
            block.store(second + i, v);
        });
        range.for_each_single<kWidth>(
            block, [&](std::int64_t i) { factors.update(gradient[i], parameter[i], first[i], second[i]); });
    }
};

template <class T>
void run(CudaStream& stream, const AdamWStep& step, const double* learning_rate, const double* multiplier,
         const double* steps, std::int64_t count, const T* gradient, T* parameter, T* first, T* second) {
    const FlatRange range(count, {gradient, parameter, first, second}, sizeof(T));
    const AdamWKernel<T> kernel{step, learning_rate, multiplier, steps, range, gradient, parameter, first, second};
    const std::size_t shared = shared_size<AdamWFactors<T>>(1);
    device::launch(
        stream,
        {.x = grid_for(stream, range.steps(), kThreads), .loops = true, .threads = kThreads, .shared_bytes = shared},
        kernel);
}

}  // namespace

void adamw(CudaStream& stream, const AdamWStep& step, const View& learning_rate, const View& multiplier,
           const View& steps, const View& gradient, const View& parameter, const View& first_moment,
           const View& second_moment) {
    dispatch_compute(parameter.dtype, [&]<class T>(TypeTag<T>) {
        run(stream, step, learning_rate.as<const double>(), multiplier.as<const double>(), steps.as<const double>(),
            parameter.numel(), gradient.as<const T>(), parameter.as<T>(), first_moment.as<T>(), second_moment.as<T>());
    });
}

}  // namespace headroom::kernels
