#pragma once
// Initialisers by their published names. Fans follow PyTorch's convention: for a weight [out, in, ...], fan_in is `in`
// times the sizes that follow, fan_out is `out` times these sizes. Values depend on the context's seed and the
// parameter's path alone.
//
//     Tensor weight = path.parameter("weight", {512, 128}, nn::init::kaiming_uniform(std::sqrt(5.0)));
//     Tensor gamma = path.parameter("gamma", {128}, nn::init::ones());
#include <cstdint>

#include <headroom/core/parameters.hpp>

namespace headroom::nn::init {

/// One value everywhere.
Initializer constant(double value);
/// 0 everywhere.
Initializer zeros();
/// 1 everywhere.
Initializer ones();
/// Normally distributed with this mean and standard deviation.
Initializer normal(double mean = 0.0, double deviation = 1.0);
/// In [low, high).
Initializer uniform(double low = 0.0, double high = 1.0);
/// Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks":
/// uniform within gain * sqrt(6 / (fan_in + fan_out)). Errors: ShapeError below rank 2, as for all four.
Initializer xavier_uniform(double gain = 1.0);
/// The same with a normal distribution of deviation gain * sqrt(2 / (fan_in + fan_out)).
Initializer xavier_normal(double gain = 1.0);
/// He et al. 2015, "Delving Deep into Rectifiers", for a leaky ReLU of slope `slope`: uniform within
/// sqrt(6 / ((1 + slope^2) * fan_in)).
Initializer kaiming_uniform(double slope = 0.0);
/// The number of connections over which a Kaiming initialiser keeps the variance: into an element of the output, which
/// suits values on their way forward, or out of an element of the input, which suits gradients.
enum class Fan : std::uint8_t { in, out };
/// The same with a normal distribution of deviation sqrt(2 / ((1 + slope^2) * fan)).
Initializer kaiming_normal(double slope = 0.0, Fan fan = Fan::in);

}  // namespace headroom::nn::init
