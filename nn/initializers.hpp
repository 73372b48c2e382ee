#pragma once
// Initialisers by their published names. Fans follow PyTorch's convention: for a weight [out, in, ...], fan_in is `in`
// times the sizes that follow, fan_out is `out` times these sizes. Values depend only on the context's seed and the
// parameter's path.
//
//     Tensor weight = path.parameter("weight", {512, 128}, nn::init::kaiming_uniform(std::sqrt(5.0)));
//     Tensor gamma = path.parameter("gamma", {128}, nn::init::ones());
#include <cstdint>

#include <headroom/core/parameters.hpp>

namespace headroom::nn::init {

/// Sets all elements to `value`.
Initializer constant(double value);
/// Sets all elements to 0.
Initializer zeros();
/// Sets all elements to 1.
Initializer ones();
/// Normally distributed with this mean and standard deviation.
Initializer normal(double mean = 0.0, double deviation = 1.0);
/// Uniform in [low, high).
Initializer uniform(double low = 0.0, double high = 1.0);
/// Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks": uniform within
/// gain * sqrt(6 / (fan_in + fan_out)). Errors: ShapeError below rank 2, as for the next three.
Initializer xavier_uniform(double gain = 1.0);
/// As xavier_uniform with a normal distribution of standard deviation gain * sqrt(2 / (fan_in + fan_out)).
Initializer xavier_normal(double gain = 1.0);
/// He et al. 2015, "Delving Deep into Rectifiers", for a leaky ReLU of slope `slope`: uniform within
/// sqrt(6 / ((1 + slope^2) * fan_in)).
Initializer kaiming_uniform(double slope = 0.0);
/// The fan that a Kaiming initialiser divides by: `in` preserves the variance of activations in forward, `out` that of
/// gradients in backward.
enum class Fan : std::uint8_t { in, out };
/// As kaiming_uniform with a normal distribution of standard deviation sqrt(2 / ((1 + slope^2) * fan)).
Initializer kaiming_normal(double slope = 0.0, Fan fan = Fan::in);

}  // namespace headroom::nn::init
