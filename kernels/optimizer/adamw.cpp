#include <headroom/kernels/optimizer/adamw.hpp>

#include <algorithm>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/optimizer/internal/updates.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kPiece = 16384;  // parameters that a thread takes at a time

template <class T>
void update(const AdamWFactors<T> factors, std::int64_t count, const T* gradient, T* parameter, T* first, T* second) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) factors.update(gradient[i], parameter[i], first[i], second[i]);
}

}  // namespace

void adamw(CpuStream& stream, const AdamWStep& step, const View& learning_rate, const View& multiplier,
           const View& steps, const View& gradient, const View& parameter, const View& first_moment,
           const View& second_moment) {
    const std::int64_t count = parameter.numel();
    const double factor = *multiplier.as<const double>();
    if (skips_step(factor)) return;
    dispatch_compute(parameter.dtype, [&]<class T>(TypeTag<T>) {
        const AdamWFactors<T> factors(step, *learning_rate.as<const double>(), factor, *steps.as<const double>() + 1);
        parallel_for(stream, (count + kPiece - 1) / kPiece, 4 * count, [&](std::int64_t piece) {
            const std::int64_t begin = piece * kPiece;
            update(factors, std::min(kPiece, count - begin), gradient.as<const T>() + begin, parameter.as<T>() + begin,
                   first_moment.as<T>() + begin, second_moment.as<T>() + begin);
        });
    });
}

}  // namespace headroom::kernels
