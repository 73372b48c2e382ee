#include <headroom/kernels/dropout/dropout.hpp>

#include <headroom/kernels/dropout/internal/threshold.hpp>
#include <headroom/kernels/random/internal/words.hpp>
#include <headroom/kernels/walk.hpp>

// Compiled without contraction of multiplications and additions: bits must equal those of other devices.

namespace headroom::kernels {

namespace {

template <class T>
void drop_run(const std::uint32_t* words, std::uint32_t threshold, T scale, const T* x, std::int64_t count, T* y) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const T kept = x[i] * scale;
        y[i] = words[i] >= threshold ? kept : T(0);
    }
}

template <class T>
void drop_run_onto(const std::uint32_t* words, std::uint32_t threshold, T scale, const T* x, std::int64_t count, T beta,
                   const T* onto, T* y) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const T kept = x[i] * scale;
        y[i] = beta * onto[i] + (words[i] >= threshold ? kept : T(0));
    }
}

/// y = beta onto + dropout(x); y may be the memory of either.
template <class T>
void drop(const CpuStream& stream, const RandomKey& key, float p, const View& x, float beta, const View& onto,
          const View& y) {
    const std::uint32_t threshold = drop_threshold(p);
    const T scale = kept_scale<T>(p);
    const Walk walk({&y, &x, &onto}, Walk::Order::shape);
    for_each_run(stream, walk, kChunk, 4 * y.numel(),
                 [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
                     alignas(64) T in_buffer[kChunk];
                     alignas(64) T onto_buffer[kChunk];
                     alignas(64) T out_buffer[kChunk];
                     RandomWords generator;
                     const std::uint32_t* words = generator.generate(key, cursor.row * walk.row_size() + first, count);
                     const T* in = borrow(cursor.at(1, first), x.dtype, walk.stride(1), count, in_buffer);
                     std::byte* target = cursor.at(0, first);
                     T* out = borrow_target<T>(target, y.dtype, walk.stride(0), count, out_buffer);
                     if (beta == 0.0f) {
                         drop_run(words, threshold, scale, in, count, out);
                     } else {
                         const T* before = borrow(cursor.at(2, first), onto.dtype, walk.stride(2), count, onto_buffer);
                         drop_run_onto(words, threshold, scale, in, count, static_cast<T>(beta), before, out);
                     }
                     settle(out, count, target, y.dtype, walk.stride(0));
                 });
}

void drop(const CpuStream& stream, const RandomKey& key, float p, const View& x, float beta, const View& onto,
          const View& y) {
    if (x.dtype == Dtype::f64 || onto.dtype == Dtype::f64 || y.dtype == Dtype::f64) {
        drop<double>(stream, key, p, x, beta, onto, y);
    } else {
        drop<float>(stream, key, p, x, beta, onto, y);
    }
}

}  // namespace

void dropout(CpuStream& stream, const RandomKey& key, float p, const View& x, const View& y) {
    drop(stream, key, p, x, 0.0f, y, y);
}

void dropout_backward(CpuStream& stream, const RandomKey& key, float p, const View& dy, float beta, const View& dx) {
    drop(stream, key, p, dy, beta, dx, dx);
}

void dropout_add(CpuStream& stream, const RandomKey& key, float p, const View& branch, const View& x, const View& y) {
    drop(stream, key, p, branch, 1.0f, x, y);
}

}  // namespace headroom::kernels
