#include <headroom/kernels/optimizer/sgd.hpp>

#include <algorithm>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kPiece = 16384;  // parameters that a thread takes at a time

template <class T>
void update(const SgdFactors<T> factors, std::int64_t count, const T* gradient, T* parameter) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) factors.update(gradient[i], parameter[i]);
}

template <bool Nesterov, class T>
void update_with_momentum(const SgdFactors<T> factors, std::int64_t count, const T* gradient, T* parameter,
                          T* velocity) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        factors.template update<Nesterov>(gradient[i], parameter[i], velocity[i]);
    }
}

}  // namespace

void sgd(CpuStream& stream, const SgdStep& step, const View& learning_rate, const View& multiplier,
         const View& gradient, const View& parameter, const View* velocity) {
    const std::int64_t count = parameter.numel();
    const double factor = *multiplier.as<const double>();
    if (skips_step(factor)) return;
    dispatch_compute(parameter.dtype, [&]<class T>(TypeTag<T>) {
        const SgdFactors<T> factors(step, *learning_rate.as<const double>(), factor);
        parallel_for(stream, (count + kPiece - 1) / kPiece, 3 * count, [&](std::int64_t piece) {
            const std::int64_t begin = piece * kPiece;
            const std::int64_t part = std::min(kPiece, count - begin);
            const T* g = gradient.as<const T>() + begin;
            T* p = parameter.as<T>() + begin;
            if (!velocity) {
                update(factors, part, g, p);
            } else if (step.nesterov) {
                update_with_momentum<true>(factors, part, g, p, velocity->as<T>() + begin);
            } else {
                update_with_momentum<false>(factors, part, g, p, velocity->as<T>() + begin);
            }
        });
    });
}

}  // namespace headroom::kernels
