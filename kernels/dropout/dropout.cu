#include <headroom/kernels/dropout/dropout.hpp>

#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dropout/internal/threshold.hpp>

// Elements are taken eight or four at a time, as whole blocks of random words. The arithmetic is that of dropout.cpp,
// compiled without contraction here as there, so the bits are the same.

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

template <class T>
struct Drop {
    static constexpr unsigned kMaxThreads = kThreads;
    RandomKey from;
    std::uint32_t threshold;
    T scale;
    T beta;

    HEADROOM_DEVICE T result(std::uint32_t word, T x) const {
        const T kept = x * scale;
        return word >= threshold ? kept : T(0);
    }
    HEADROOM_DEVICE static PhiloxBlock words(const RandomKey& key, std::int64_t block) {
        return philox(key, static_cast<std::uint64_t>(block));
    }
    /// Of element i; no array is indexed, which would take it to local memory.
    HEADROOM_DEVICE static std::uint32_t word(const RandomKey& key, std::int64_t i) {
        const PhiloxBlock four = words(key, i / 4);
        const std::uint32_t low = i % 4 == 0 ? four[0] : four[1];
        const std::uint32_t high = i % 4 == 2 ? four[2] : four[3];
        return i % 4 < 2 ? low : high;
    }
};

/// Operands: y, x and, read unless beta is 0, what beta multiplies.
struct DropEights : Drop<float> {
    HEADROOM_DEVICE void operator()(Block& block, const Eights<3> at) const {
        const RandomKey key = from.shifted();
        for (std::int64_t g = block.global_thread(); g < at.groups(); g += block.global_threads()) {
            const Offsets<3> offsets = at.offsets(g);
            Floats<8> values = at.load(block, 1, offsets);
            const PhiloxBlock first = words(key, 2 * g), second = words(key, 2 * g + 1);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const auto word = static_cast<unsigned>(k);
                values[k] = result(first[word], values[k]);
                values[k + 4] = result(second[word], values[k + 4]);
            }
            if (beta != 0.0f) {
                const Floats<8> before = at.load(block, 2, offsets);
#pragma unroll
                for (int k = 0; k < 8; ++k) values[k] = beta * before[k] + values[k];
            }
            at.store(block, 0, offsets, values);
        }
        const std::int64_t i = at.rest(block.global_thread());
        if (i < 0) return;
        const float value = result(word(key, i), at.load_one(1, i));
        at.store_one(0, i, beta != 0.0f ? beta * at.load_one(2, i) + value : value);
    }
};

/// Any strides and dtypes.
template <class T>
struct DropAnywhere : Drop<T> {
    HEADROOM_DEVICE void operator()(Block& block, const Strided<3> at) const {
        const RandomKey key = this->from.shifted();
        for (std::int64_t b = block.global_thread(); 4 * b < at.numel(); b += block.global_threads()) {
            const PhiloxBlock four = this->words(key, b);
            std::uint32_t next[4] = {four[0], four[1], four[2], four[3]};
            for (std::int64_t i = 4 * b; i < 4 * b + 4 && i < at.numel(); ++i) {
                const Offsets<3> offsets = at.offsets(i);
                T value = this->result(next[0], at.load<T>(1, offsets));
                if (this->beta != T(0)) value = this->beta * at.load<T>(2, offsets) + value;
                at.store<T>(0, offsets, value);
                next[0] = next[1], next[1] = next[2], next[2] = next[3];
            }
        }
    }
};

template <class T>
void drop_anywhere(CudaStream& stream, const Drop<T>& drop, const View& x, const View& onto, const View& y) {
    launch(stream, {.x = grid_for(stream, y.numel(), 4 * kThreads), .loops = true, .threads = kThreads},
           DropAnywhere<T>{drop}, Strided<3>({&y, &x, &onto}, Walk::Order::shape));
}

/// y = beta onto + dropout(x)
void drop(CudaStream& stream, const RandomKey& key, float p, const View& x, float beta, const View& onto,
          const View& y) {
    if (y.numel() == 0) return;
    const std::uint32_t threshold = drop_threshold(p);
    if (x.dtype == Dtype::f64 || onto.dtype == Dtype::f64 || y.dtype == Dtype::f64) {
        return drop_anywhere<double>(stream, {key, threshold, kept_scale<double>(p), beta}, x, onto, y);
    }
    const Drop<float> drop{key, threshold, kept_scale<float>(p), beta};
    const Eights<3> eights({&y, &x, &onto}, Walk::Order::shape);
    if (!eights.possible()) return drop_anywhere(stream, drop, x, onto, y);
    launch(stream, {.x = grid_for(stream, y.numel(), 8 * kThreads), .loops = true, .threads = kThreads},
           DropEights{drop}, eights);
}

}  // namespace

void dropout(CudaStream& stream, const RandomKey& key, float p, const View& x, const View& y) {
    drop(stream, key, p, x, 0.0f, y, y);
}

void dropout_backward(CudaStream& stream, const RandomKey& key, float p, const View& dy, float beta, const View& dx) {
    drop(stream, key, p, dy, beta, dx, dx);
}

void dropout_add(CudaStream& stream, const RandomKey& key, float p, const View& branch, const View& x, const View& y) {
    drop(stream, key, p, branch, 1.0f, x, y);
}

}  // namespace headroom::kernels
