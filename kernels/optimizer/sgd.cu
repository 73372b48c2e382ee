#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/optimizer/internal/ranges.cuh>
#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kThreads = 256;

enum class Form { plain, momentum, nesterov };

template <class T, Form Kind>
struct SgdKernel {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kWidth = kWide<T>;

    SgdStep step;
    const double *learning_rate, *multiplier;
    FlatRange range;
    const T* gradient;
    T *parameter, *velocity;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const double factor = *multiplier;
        if (skips_step(factor)) return;
        const SgdFactors<T> factors(step, *learning_rate, factor);
        range.for_each_vector<kWidth>(block, [&](std::int64_t i) {
            const Vector<T, kWidth> g = block.load<kWidth>(gradient + i);
            Vector<T, kWidth> p = block.load<kWidth>(parameter + i);
            Vector<T, kWidth> v{};
            if (Kind != Form::plain) v = block.load<kWidth>(velocity + i);
#pragma unroll
            for (int k = 0; k < kWidth; ++k) update(factors, g[k], p[k], v[k]);
            block.store(parameter + i, p);
            if (Kind != Form::plain) block.store(velocity + i, v);
        });
        range.for_each_single<kWidth>(block, [&](std::int64_t i) {
            T none{};
            update(factors, gradient[i], parameter[i], Kind == Form::plain ? none : velocity[i]);
        });
    }

    HEADROOM_DEVICE static void update(const SgdFactors<T>& factors, T g, T& p, T& v) {
        if constexpr (Kind == Form::plain) {
            factors.update(g, p);
        } else {
            factors.template update<Kind == Form::nesterov>(g, p, v);
        }
    }
};

template <Form Kind, class T>
void run(CudaStream& stream, const SgdStep& step, const double* learning_rate, const double* multiplier,
         std::int64_t count, const T* gradient, T* parameter, T* velocity) {
    const FlatRange range(count, {gradient, parameter, velocity ? velocity : parameter}, sizeof(T));
    const SgdKernel<T, Kind> kernel{step, learning_rate, multiplier, range, gradient, parameter, velocity};
    device::launch(stream, {.x = grid_for(stream, range.steps(), kThreads), .loops = true, .threads = kThreads},
                   kernel);
}

}  // namespace

void sgd(CudaStream& stream, const SgdStep& step, const View& learning_rate, const View& multiplier,
         const View& gradient, const View& parameter, const View* velocity) {
    const auto *rate = learning_rate.as<const double>(), *factor = multiplier.as<const double>();
    const std::int64_t count = parameter.numel();
    dispatch_compute(parameter.dtype, [&]<class T>(TypeTag<T>) {
        const T* g = gradient.as<const T>();
        T* p = parameter.as<T>();
        if (!velocity) return run<Form::plain, T>(stream, step, rate, factor, count, g, p, nullptr);
        T* v = velocity->as<T>();
        if (step.nesterov) return run<Form::nesterov>(stream, step, rate, factor, count, g, p, v);
        run<Form::momentum>(stream, step, rate, factor, count, g, p, v);
    });
}

}  // namespace headroom::kernels
