#include <headroom/kernels/random/random.hpp>

#include <cmath>

#include <headroom/kernels/math.hpp>
#include <headroom/kernels/random/internal/words.hpp>
#include <headroom/kernels/walk.hpp>

// Compiled without contraction of multiplications and additions: bits must equal those of other devices.

namespace headroom::kernels {

namespace {

/// Calls `make(first, count, values)`, which is to fill `values` for elements [first, first + count), and stores them.
template <class T, class Make>
void generate(const CpuStream& stream, const View& y, std::int64_t cost, Make&& make) {
    const Walk walk({&y}, Walk::Order::shape);
    for_each_run(stream, walk, kChunk, cost * y.numel(),
                 [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
                     alignas(64) T buffer[kChunk];
                     std::byte* target = cursor.at(0, first);
                     T* values = borrow_target<T>(target, y.dtype, walk.stride(0), count, buffer);
                     make(cursor.row * walk.row_size() + first, count, values);
                     settle(values, count, target, y.dtype, walk.stride(0));
                 });
}

}  // namespace

void uniform(CpuStream& stream, const RandomKey& key, float low, float high, const View& y) {
    const float width = high - low;
    generate<float>(stream, y, 4, [&](std::int64_t first, std::int64_t count, float* values) {
        RandomWords words;
        const std::uint32_t* word = words.generate(key, first, count);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) values[i] = low + width * uniform_from(word[i]);
    });
}

void normal(CpuStream& stream, const RandomKey& key, float mean, float deviation, const View& y) {
    generate<float>(stream, y, 16, [&](std::int64_t first, std::int64_t count, float* values) {
        RandomWords words;
        const std::int64_t odd = first % 2;  // the first element may be the second of its pair
        const std::uint32_t* word = words.generate(key, first, count) - odd;
        const std::int64_t pairs = (count + odd + 1) / 2;
        alignas(64) float numbers[kChunk + 2];
#pragma omp simd
        for (std::int64_t j = 0; j < pairs; ++j) {
            const float u = static_cast<float>(word[2 * j]) * 0x1p-32f + 0x1p-33f;
            const float radius = std::sqrt(-2.0f * math::portable::log(u));
            const math::SinCos turn = math::sin_cos_of_turns(uniform_from(word[2 * j + 1]));
            numbers[2 * j] = mean + deviation * (radius * turn.cos);
            numbers[2 * j + 1] = mean + deviation * (radius * turn.sin);
        }
        for (std::int64_t i = 0; i < count; ++i) values[i] = numbers[odd + i];
    });
}

void random_integers(CpuStream& stream, const RandomKey& key, std::int64_t low, std::int64_t high, const View& y) {
    const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    generate<std::int64_t>(stream, y, 4, [&](std::int64_t first, std::int64_t count, std::int64_t* values) {
        RandomWords words;
        const std::uint32_t* word = words.generate(key, first, count);
        for (std::int64_t i = 0; i < count; ++i) {
            values[i] = low + static_cast<std::int64_t>((std::uint64_t{word[i]} * range) >> 32);
        }
    });
}

}  // namespace headroom::kernels
