#include <headroom/kernels/rotary/rotary.hpp>

#include <algorithm>
#include <cmath>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kSineCost = 16;
constexpr std::int64_t kPairs = 128;  // that are worked on at a time

template <class T>
struct Angles {
    T cosine[kPairs], sine[kPairs];

    Angles(const Rotary& rotary, std::int64_t position, std::int64_t begin, std::int64_t count, std::int64_t width) {
        for (std::int64_t i = 0; i < count; ++i) {
            const double angle =
                static_cast<double>(position) *
                std::pow(rotary.base, -2.0 * static_cast<double>(begin + i) / static_cast<double>(width));
            cosine[i] = static_cast<T>(std::cos(angle));
            sine[i] = static_cast<T>(rotary.back ? -std::sin(angle) : std::sin(angle));
        }
    }
};

template <class T>
void turn_halves(const Rows& in, const Rows& out, std::int64_t row, std::int64_t begin, std::int64_t count,
                 const Angles<T>& angles, float beta) {
    const std::int64_t half = in.length() / 2;
    T in_a[kPairs], in_b[kPairs], out_a[kPairs], out_b[kPairs];
    const T* a = in.read(row, begin, count, in_a);
    const T* b = in.read(row, begin + half, count, in_b);
    for (std::int64_t i = 0; i < count; ++i) {
        out_a[i] = a[i] * angles.cosine[i] - b[i] * angles.sine[i];
        out_b[i] = a[i] * angles.sine[i] + b[i] * angles.cosine[i];
    }
    out.write(out_a, row, begin, count, beta);
    out.write(out_b, row, begin + half, count, beta);
}

template <class T>
void turn_neighbours(const Rows& in, const Rows& out, std::int64_t row, std::int64_t begin, std::int64_t count,
                     const Angles<T>& angles, float beta) {
    T buffer[2 * kPairs], turned[2 * kPairs];
    const T* x = in.read(row, 2 * begin, 2 * count, buffer);
    for (std::int64_t i = 0; i < count; ++i) {
        turned[2 * i] = x[2 * i] * angles.cosine[i] - x[2 * i + 1] * angles.sine[i];
        turned[2 * i + 1] = x[2 * i] * angles.sine[i] + x[2 * i + 1] * angles.cosine[i];
    }
    out.write(turned, row, 2 * begin, 2 * count, beta);
}

template <class T>
void copy_row(const Rows& in, const Rows& out, std::int64_t row, float beta) {
    T buffer[kChunk];
    for_each_chunk(in.length(), [&](std::int64_t begin, std::int64_t count) {
        out.write(in.read(row, begin, count, buffer), row, begin, count, beta);
    });
}

}  // namespace

void rotary(CpuStream& stream, const Rotary& rotary, const View& x, float beta, const View& y) {
    const Rows in(x), out(y);
    const std::int64_t positions = x.size(0) * x.size(1), time = x.size(1), heads = x.size(2), pairs = x.size(3) / 2;
    const bool copies = beta != 0 || x.data != y.data;
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    dispatch_compute(wide ? Dtype::f64 : Dtype::f32, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, positions, 2 * x.numel() + kSineCost * positions * pairs, [&](std::int64_t i) {
            for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
                const std::int64_t count = std::min(kPairs, pairs - begin);
                const Angles<T> angles(rotary, rotary.first_position + i % time, begin, count, x.size(3));
                for (std::int64_t row = i * heads; row < i * heads + rotary.heads; ++row) {
                    if (rotary.interleaved) {
                        turn_neighbours(in, out, row, begin, count, angles, beta);
                    } else {
                        turn_halves(in, out, row, begin, count, angles, beta);
                    }
                }
            }
            for (std::int64_t row = i * heads + rotary.heads; copies && row < (i + 1) * heads; ++row)
                copy_row<T>(in, out, row, beta);
        });
    });
}

}  // namespace headroom::kernels
