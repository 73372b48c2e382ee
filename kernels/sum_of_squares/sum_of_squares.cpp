#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>

#include <algorithm>
#include <atomic>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kMaxParts = 64;
constexpr std::int64_t kPartElements = 16384;

double squares_of_run(const double* x, std::int64_t count) { return combine_run<SquaredDeviation>(x, count, 0.0); }

double squares_of_run(const float* x, std::int64_t count) {
    using Half [[gnu::vector_size(32)]] = float;  // as many floats as there are doubles in a vector
    constexpr std::int64_t width = kLanes<double>;
    Lanes<double> sums[4] = {};
    std::int64_t i = 0;
    for (; i + 4 * width <= count; i += 4 * width) {
        for (int k = 0; k < 4; ++k) {
            Half half;
            std::memcpy(&half, x + i + k * width, sizeof(half));
            const auto values = __builtin_convertvector(half, Lanes<double>);
            sums[k] += values * values;
        }
    }
    double total = merge_lanes<Sum, double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return total;
}

/// 0 times a finite number is 0, times anything else NaN.
template <class T>
bool finite_run(const T* x, std::int64_t count) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += x[i] * T{0};
    return sum == T{0};
}

}  // namespace

SumOfSquaresPlan::SumOfSquaresPlan(const Stream& stream, const View& x, const View& result, float beta)
    : x_(x),
      result_(result),
      beta_(beta),
      cuda_parts_(on_cuda(stream) ? std::clamp<std::int64_t>(x.numel() / 16384, 1, 1024) : 0) {}

std::size_t all_finite_scratch(const Stream& stream) { return on_cuda(stream) ? sizeof(unsigned) : 0; }

void SumOfSquaresPlan::run(CpuStream& stream, std::byte*) const {
    const std::int64_t count = x_.numel();
    const std::int64_t parts = std::clamp<std::int64_t>(count / kPartElements, 1, kMaxParts);
    double sums[kMaxParts] = {};
    dispatch_compute(x_.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, parts, count, [&](std::int64_t part) {
            T buffer[kChunk];
            const std::int64_t first = count * part / parts;
            for_each_chunk(count * (part + 1) / parts - first, [&](std::int64_t begin, std::int64_t length) {
                sums[part] += squares_of_run(borrow(x_.at(first + begin), x_.dtype, 1, length, buffer), length);
            });
        });
    });
    double& total = *result_.as<double>();
    total = beta_ == 0 ? 0 : static_cast<double>(beta_) * total;
    for (std::int64_t part = 0; part < parts; ++part) total += sums[part];
}

bool all_finite(CpuStream& stream, const View& x, std::byte*) {
    if (x.numel() == 0) return true;
    // A contiguous view is cut anew: its own rows may be single elements or one huge run.
    const bool flat = x.is_contiguous();
    const std::int64_t length = flat ? kPartElements : x.rank() == 0 ? 1 : x.shape[x.rank() - 1];
    const Rows rows(x);
    std::atomic<bool> finite{true};
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        const std::int64_t tasks = (x.numel() + length - 1) / length;
        parallel_for(stream, tasks, x.numel(), [&](std::int64_t task) {
            T buffer[kChunk];
            bool fine = true;
            for_each_chunk(std::min(length, x.numel() - task * length), [&](std::int64_t begin, std::int64_t count) {
                const T* values = flat ? borrow(x.at(task * length + begin), x.dtype, 1, count, buffer)
                                       : rows.read(task, begin, count, buffer);
                fine = fine && finite_run(values, count);
            });
            if (!fine) finite.store(false, std::memory_order_relaxed);
        });
    });
    return finite.load(std::memory_order_relaxed);
}

}  // namespace headroom::kernels
