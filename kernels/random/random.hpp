#pragma once
// Arrays of random numbers. Element i of an array, in row-major order, comes from word i of the key's sequence (see
// `philox.hpp`): the same key gives the same bits, in pieces or at once, with any number of threads, on every device.
//
//     kernels::normal(stream, path_key(seed, "up.w"), 0.0f, 0.02f, weight);
//     kernels::uniform(stream, op_key(seed, 7), -1.0f, 1.0f, y);
//
// Floating numbers are computed in f32 and rounded to the array's dtype.
#include <cstdint>

#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = low + (high - low) u, where u is a multiple of 2^-24 in [0, 1). Rounding may reach `high`, especially in halves.
void uniform(CpuStream& stream, const RandomKey& key, float low, float high, const View& y);
void uniform(CudaStream& stream, const RandomKey& key, float low, float high, const View& y);

/// y = mean + deviation z, with z normal by the Box-Muller transform (1958): elements 2j and 2j + 1 come from words 2j
/// (radius) and 2j + 1 (angle). |z| <= 6.77.
void normal(CpuStream& stream, const RandomKey& key, float mean, float deviation, const View& y);
void normal(CudaStream& stream, const RandomKey& key, float mean, float deviation, const View& y);

/// y = low + floor(word (high - low) / 2^32), an integer in [low, high); 0 < high - low <= 2^32. Probabilities deviate
/// from uniform by up to 2^-32.
void random_integers(CpuStream& stream, const RandomKey& key, std::int64_t low, std::int64_t high, const View& y);
void random_integers(CudaStream& stream, const RandomKey& key, std::int64_t low, std::int64_t high, const View& y);

}  // namespace headroom::kernels
