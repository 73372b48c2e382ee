#pragma once
// Draws categories by weight, with or without replacement. Words of a key are assigned to elements as in `random.hpp`;
// the arrival times of a race have the same bits on every device.
//
//     race(stream, key, weights, times);          // then the positions of the k smallest: without replacement
//     pick(stream, key, weights, sums, drawn);    // with replacement
//
// In each line, weights must not be negative and must have a positive sum. This is not checked, because values on the
// device are not read; otherwise the draws are arbitrary positions of the line.
#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// times (f32) = e / weights with e exponential: the arrival time of each category. The order of arrival is the order
/// of draws without replacement (Efraimidis and Spirakis 2006). Weights of 0 arrive at infinity.
void race(CpuStream& stream, const RandomKey& key, const View& weights, const View& times);
void race(CudaStream& stream, const RandomKey& key, const View& weights, const View& times);

/// y [..., k] (i64) = the first category whose cumulative sum exceeds a uniform fraction of the last sum. `sums`: f64
/// [..., n], contiguous, the weights up to and including each category. Never returns a category of weight 0.
void pick(CpuStream& stream, const RandomKey& key, const View& weights, const View& sums, const View& y);
void pick(CudaStream& stream, const RandomKey& key, const View& weights, const View& sums, const View& y);

}  // namespace headroom::kernels
