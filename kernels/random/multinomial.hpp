#pragma once
// Draws of categories by their weights: the kernels of the two ways. The words of a key belong to elements as in
// `random.hpp`; on every device the keys of a race have the same bits.
//
//     race(stream, key, weights, times);          // then the positions of the k smallest: without replacement
//     pick(stream, key, weights, sums, drawn);    // with replacement
//
// Weights are not negative and have a positive sum in each line; that is not checked, since a device's values are not
// read. Where it does not hold, draws are arbitrary positions of the line.
#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// times (f32) = e / weights, e exponential: when each category arrives. The order of arrival is the order of draws
/// without replacement (Efraimidis and Spirakis 2006). Weights of 0 arrive at infinity.
void race(CpuStream& stream, const RandomKey& key, const View& weights, const View& times);
void race(CudaStream& stream, const RandomKey& key, const View& weights, const View& times);

/// y [..., k] (i64) = the first category whose sum (f64 [..., n], contiguous: the weights up to it) is above a uniform
/// share of the last sum. Never one of weight 0.
void pick(CpuStream& stream, const RandomKey& key, const View& weights, const View& sums, const View& y);
void pick(CudaStream& stream, const RandomKey& key, const View& weights, const View& sums, const View& y);

}  // namespace headroom::kernels
