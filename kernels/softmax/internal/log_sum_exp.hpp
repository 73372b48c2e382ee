#pragma once
// The logarithm of a row's sum of exponentials, in one pass over memory, chunk by chunk. The sum is rescaled if a chunk
// has a larger element (Milakov and Gimelshein 2018, arXiv:1805.02867).
//
//     RowReader<float> row(rows, i);
//     const auto [largest, sum] = sum_exp<float>(row, rows.length());
//     const float lse = largest + math::log(sum);  // which rounds: keep the two apart where differences count
#include <cstdint>

#include <headroom/kernels/math.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

/// The sum of exp(x - largest). For a row of -infinity, largest is -infinity and the sum 0. With NaN or +infinity, the
/// sum is NaN.
template <class T>
struct SumExp {
    T largest;
    T sum;
};

template <class T>
T sum_exp_run(const T* values, std::int64_t count, T shift) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += math::exp(values[i] - shift);
    return sum;
}

template <class T>
SumExp<T> sum_exp(RowReader<T>& row, std::int64_t length) {
    constexpr T nothing = -std::numeric_limits<T>::infinity();
    SumExp<T> result{nothing, 0};
    for_each_chunk(length, [&](std::int64_t begin, std::int64_t count) {
        const T* values = row(begin, count);
        const T largest = combine_run<LargestNumber>(values, count);
        if (largest > result.largest) {
            // Before any number was seen, the sum is 0 or NaN.
            if (result.largest != nothing) result.sum *= math::exp(result.largest - largest);
            result.largest = largest;
        }
        result.sum += sum_exp_run(values, count, result.largest == nothing ? T{0} : result.largest);
    });
    return result;
}

}  // namespace headroom::kernels
