#include <headroom/kernels/random/random.hpp>

#include <bit>
#include <cmath>
#include <type_traits>

#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/math.hpp>

// A thread takes whole blocks of four words, each with the four elements that they belong to. The arithmetic is that of
// random.cpp, compiled without contraction here as there, so the bits are the same.

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

template <class T>
struct Four {
    T at[4];
};

struct Uniform {
    float low;
    float width;
    HEADROOM_DEVICE Four<float> operator()(const PhiloxBlock& words) const {
        Four<float> values;
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) values.at[k] = low + width * uniform_from(words[k]);
        return values;
    }
};

struct Normal {
    float mean;
    float deviation;
    HEADROOM_DEVICE Four<float> operator()(const PhiloxBlock& words) const {
        Four<float> values;
#pragma unroll
        for (unsigned k = 0; k < 4; k += 2) {
            const float u = static_cast<float>(words[k]) * 0x1p-32f + 0x1p-33f;
            const float radius = std::sqrt(-2.0f * math::portable::log(u));
            const math::SinCos turn = math::sin_cos_of_turns(uniform_from(words[k + 1]));
            values.at[k] = mean + deviation * (radius * turn.cos);
            values.at[k + 1] = mean + deviation * (radius * turn.sin);
        }
        return values;
    }
};

struct Integers {
    std::int64_t low;
    std::uint64_t range;
    HEADROOM_DEVICE Four<std::int64_t> operator()(const PhiloxBlock& words) const {
        Four<std::int64_t> values;
#pragma unroll
        for (unsigned k = 0; k < 4; ++k)
            values.at[k] = low + static_cast<std::int64_t>((std::uint64_t{words[k]} * range) >> 32);
        return values;
    }
};

/// Element k of a block; no array is indexed, which would take it to local memory.
template <class Values>
HEADROOM_DEVICE auto pick(const Values& four, std::int64_t k) {
    const auto low = k == 0 ? four.at[0] : four.at[1];
    const auto high = k == 2 ? four.at[2] : four.at[3];
    return k < 2 ? low : high;
}

/// Elements of type T beside each other, from an address that is a multiple of 16 on.
template <class T, class Make>
struct GenerateWide {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kEach = kWide<T> > 4 ? kWide<T> : 4;  // elements of a thread
    RandomKey from;
    Make make;

    HEADROOM_DEVICE void operator()(Block& block, T* y, std::int64_t n) const {
        const RandomKey key = from.shifted();
        const std::int64_t whole = n / kEach;
        for (std::int64_t i = block.global_thread(); i < whole; i += block.global_threads()) {
            T elements[kEach];
#pragma unroll
            for (int j = 0; j < kEach; j += 4) {
                const auto four = make(philox(key, static_cast<std::uint64_t>(i * kEach + j) / 4));
#pragma unroll
                for (int k = 0; k < 4; ++k) elements[j + k] = to_element<T>(four.at[k]);
            }
#pragma unroll
            for (int j = 0; j < kEach; j += kWide<T>) {
                Vector<T, kWide<T>> vector;
#pragma unroll
                for (int k = 0; k < kWide<T>; ++k) vector[k] = elements[j + k];
                block.store(y + i * kEach + j, vector);
            }
        }
        const std::int64_t i = whole * kEach + block.global_thread();
        if (i < n) y[i] = to_element<T>(pick(make(philox(key, static_cast<std::uint64_t>(i) / 4)), i % 4));
    }
};

/// Any strides and dtype.
template <class Make>
struct GenerateAnywhere {
    static constexpr unsigned kMaxThreads = kThreads;
    RandomKey from;
    Make make;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<1> y) const {
        const RandomKey key = from.shifted();
        for (std::int64_t i = block.global_thread(); 4 * i < y.numel(); i += block.global_threads()) {
            const auto four = make(philox(key, static_cast<std::uint64_t>(i)));
            for (int k = 0; k < 4 && 4 * i + k < y.numel(); ++k) y.store(0, y.offsets(4 * i + k), pick(four, k));
        }
    }
};

template <class T, class Make>
void generate_wide(CudaStream& stream, const RandomKey& key, const Make& make, const View& y) {
    using Kernel = GenerateWide<T, Make>;
    const std::int64_t n = y.numel();
    launch(stream, {.x = grid_for(stream, n, kThreads * Kernel::kEach), .loops = true, .threads = kThreads},
           Kernel{key, make}, y.as<T>(), n);
}

template <class Make>
void generate(CudaStream& stream, const RandomKey& key, const Make& make, const View& y) {
    if (y.numel() == 0) return;
    if (y.is_contiguous() && std::bit_cast<std::uintptr_t>(y.data) % 16 == 0) {
        if constexpr (std::is_same_v<Make, Integers>) {
            if (y.dtype == Dtype::i64) return generate_wide<std::int64_t>(stream, key, make, y);
            if (y.dtype == Dtype::i32) return generate_wide<std::int32_t>(stream, key, make, y);
        } else {
            if (y.dtype == Dtype::f32) return generate_wide<float>(stream, key, make, y);
            if (y.dtype == Dtype::f16) return generate_wide<f16>(stream, key, make, y);
            if (y.dtype == Dtype::bf16) return generate_wide<bf16>(stream, key, make, y);
        }
    }
    launch(stream, {.x = grid_for(stream, y.numel(), 4 * kThreads), .loops = true, .threads = kThreads},
           GenerateAnywhere<Make>{key, make}, Strided<1>({&y}, Walk::Order::shape));
}

}  // namespace

void uniform(CudaStream& stream, const RandomKey& key, float low, float high, const View& y) {
    generate(stream, key, Uniform{low, high - low}, y);
}

void normal(CudaStream& stream, const RandomKey& key, float mean, float deviation, const View& y) {
    generate(stream, key, Normal{mean, deviation}, y);
}

void random_integers(CudaStream& stream, const RandomKey& key, std::int64_t low, std::int64_t high, const View& y) {
    generate(stream, key, Integers{low, static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)}, y);
}

}  // namespace headroom::kernels
