#include <headroom/kernels/optimizer/adamw.hpp>

#include <algorithm>
#include <cmath>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kPiece = 16384;  // parameters that a thread takes at a time

/// The step's constants, worked out in f64 and rounded once.
template <class T>
struct Factors {
    T gradient, decay, first, second, size, correction, epsilon;

    Factors(const AdamWStep& step, double multiplier)
        : gradient(static_cast<T>(multiplier)),
          decay(static_cast<T>(1 - step.learning_rate * step.weight_decay)),
          first(static_cast<T>(1 - step.beta1)),
          second(static_cast<T>(1 - step.beta2)),
          size(static_cast<T>(step.learning_rate / (1 - std::pow(step.beta1, static_cast<double>(step.step))))),
          correction(static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.step))))),
          epsilon(static_cast<T>(step.epsilon)) {}
};

template <class T>
void update(const Factors<T> f, std::int64_t count, const T* gradient, T* parameter, T* first, T* second) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const T g = gradient[i] * f.gradient;
        const T m = first[i] + f.first * (g - first[i]);
        const T v = second[i] + f.second * (g * g - second[i]);
        first[i] = m;
        second[i] = v;
        parameter[i] = f.decay * parameter[i] - f.size * m / (std::sqrt(v) * f.correction + f.epsilon);
    }
}

}  // namespace

void adamw(CpuStream& stream, const AdamWStep& step, const View& multiplier, const View& gradient,
           const View& parameter, const View& first_moment, const View& second_moment) {
    const std::int64_t count = parameter.elements();
    dispatch_compute(parameter.dtype, [&]<class T>(TypeTag<T>) {
        const Factors<T> factors(step, load_one<double>(multiplier.data, multiplier.dtype));
        parallel_for(stream, (count + kPiece - 1) / kPiece, 4 * count, [&](std::int64_t piece) {
            const std::int64_t begin = piece * kPiece;
            update(factors, std::min(kPiece, count - begin), gradient.as<const T>() + begin, parameter.as<T>() + begin,
                   first_moment.as<T>() + begin, second_moment.as<T>() + begin);
        });
    });
}

}  // namespace headroom::kernels
