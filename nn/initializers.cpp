#include <headroom/nn/initializers.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn::init {

namespace {

struct Fans {
    double in;
    double out;
};

Fans fans(const Shape& shape) {
    if (shape.rank() < 2) {
        throw ShapeError(
            fmt::format("initializer: fan-in and fan-out need a weight of rank 2 or more, got {}", shape.to_string()));
    }
    double field = 1;
    for (int i = 2; i < shape.rank(); ++i) field *= static_cast<double>(shape[i]);
    return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

void fill_normal(Exec& exec, const Array& array, const kernels::RandomKey& key, double mean, double deviation) {
    exec.launch([&](auto& stream) {
        kernels::normal(stream, key, static_cast<float>(mean), static_cast<float>(deviation), array.view());
    });
}

void fill_uniform(Exec& exec, const Array& array, const kernels::RandomKey& key, double low, double high) {
    exec.launch([&](auto& stream) {
        kernels::uniform(stream, key, static_cast<float>(low), static_cast<float>(high), array.view());
    });
}

}  // namespace

Initializer constant(double value) {
    return [value](Exec& exec, const Array& array, const kernels::RandomKey&) {
        exec.launch([&](auto& stream) { kernels::fill(stream, value, array.view()); });
    };
}

Initializer zeros() { return constant(0.0); }

Initializer ones() { return constant(1.0); }

Initializer normal(double mean, double deviation) {
    return [=](Exec& exec, const Array& array, const kernels::RandomKey& key) {
        fill_normal(exec, array, key, mean, deviation);
    };
}

Initializer uniform(double low, double high) {
    return [=](Exec& exec, const Array& array, const kernels::RandomKey& key) {
        fill_uniform(exec, array, key, low, high);
    };
}

Initializer xavier_uniform(double gain) {
    return [gain](Exec& exec, const Array& array, const kernels::RandomKey& key) {
        const Fans fan = fans(array.shape());
        const double bound = gain * std::sqrt(6.0 / (fan.in + fan.out));
        fill_uniform(exec, array, key, -bound, bound);
    };
}

Initializer xavier_normal(double gain) {
    return [gain](Exec& exec, const Array& array, const kernels::RandomKey& key) {
        const Fans fan = fans(array.shape());
        fill_normal(exec, array, key, 0.0, gain * std::sqrt(2.0 / (fan.in + fan.out)));
    };
}

Initializer kaiming_uniform(double slope) {
    return [slope](Exec& exec, const Array& array, const kernels::RandomKey& key) {
        const double bound = std::sqrt(6.0 / ((1.0 + slope * slope) * fans(array.shape()).in));
        fill_uniform(exec, array, key, -bound, bound);
    };
}

Initializer kaiming_normal(double slope, Fan fan) {
    return [slope, fan](Exec& exec, const Array& array, const kernels::RandomKey& key) {
        const auto both = fans(array.shape());
        const double connections = fan == Fan::in ? both.in : both.out;
        fill_normal(exec, array, key, 0.0, std::sqrt(2.0 / ((1.0 + slope * slope) * connections)));
    };
}

}  // namespace headroom::nn::init
