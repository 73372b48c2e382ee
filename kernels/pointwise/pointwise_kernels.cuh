#pragma once
// The loops of all pointwise kernels on a GPU: one function of a few inputs over arrays of any strides and dtypes. The
// compiler generates two f32 kernels and one f64 kernel per function (and one i64 kernel): dtypes are tested at run
// time, in branches that all threads take alike. Users call `map` and `map_backward`.
//
//     run_pointwise<float>(stream, UnaryValue<Exp>{f}, {&y, &x}, 0.0f);
//
// The fast f32 kernel takes eight neighbours at a time, in 16-byte accesses. It handles arrays of f32, f16 and bf16 in
// any mixture whose innermost axis is contiguous or one repeated element (a scalar, a column). Everything else is
// processed one element at a time.
#include <cstdint>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/pointwise/internal/elementwise.hpp>

namespace headroom::kernels::detail {

using device::Block;
using device::Floats;
using device::Strided;

/// Elements that a thread of the fast kernel takes at a time.
inline constexpr int kTogether = 8;
inline constexpr unsigned kPointwiseThreads = 256;

/// The inputs of one element.
template <class T, int N>
struct Inputs {
    T at[N];
    HEADROOM_DEVICE T& operator[](int i) { return at[i]; }
    HEADROOM_DEVICE const T& operator[](int i) const { return at[i]; }
};

/// Truth values are bytes. Only functions declared to have some read them on the fast path.
constexpr bool is_fast(Dtype dtype, bool truth) {
    return dtype == Dtype::f32 || is_half(dtype) || (truth && dtype == Dtype::boolean);
}

/// One element as f32; the dtypes are those of `is_fast`.
template <bool kTruth>
HEADROOM_DEVICE float load_fast(const void* p, Dtype dtype, std::int64_t offset) {
    if (dtype == Dtype::f16) return device::as_float(static_cast<const f16*>(p)[offset]);
    if (dtype == Dtype::bf16) return device::as_float(static_cast<const bf16*>(p)[offset]);
    if (kTruth && dtype == Dtype::boolean) return static_cast<const std::uint8_t*>(p)[offset] != 0 ? 1.0f : 0.0f;
    return static_cast<const float*>(p)[offset];
}

template <bool kTruth>
HEADROOM_DEVICE void store_fast(void* p, Dtype dtype, std::int64_t offset, float value) {
    if (dtype == Dtype::f16) {
        static_cast<f16*>(p)[offset] = device::rounded<f16>(value);
    } else if (dtype == Dtype::bf16) {
        static_cast<bf16*>(p)[offset] = device::rounded<bf16>(value);
    } else if (kTruth && dtype == Dtype::boolean) {
        static_cast<bool*>(p)[offset] = value != 0.0f;
    } else {
        static_cast<float*>(p)[offset] = value;
    }
}

/// Eight elements from `offset` on as f32, or one element eight times.
template <bool kTruth>
HEADROOM_DEVICE Floats<kTogether> load_together(Block& block, const void* p, Dtype dtype, std::int64_t offset,
                                                bool repeated) {
    Floats<kTogether> values;
    if (repeated) {
        const float value = load_fast<kTruth>(p, dtype, offset);
#pragma unroll
        for (int k = 0; k < kTogether; ++k) values[k] = value;
    } else if (dtype == Dtype::f16) {
        values = block.load_floats<kTogether>(static_cast<const f16*>(p) + offset);
    } else if (dtype == Dtype::bf16) {
        values = block.load_floats<kTogether>(static_cast<const bf16*>(p) + offset);
    } else if (kTruth && dtype == Dtype::boolean) {
        const auto bytes = block.load<kTogether>(static_cast<const std::uint8_t*>(p) + offset);
#pragma unroll
        for (int k = 0; k < kTogether; ++k) values[k] = bytes[k] != 0 ? 1.0f : 0.0f;
    } else {
        values = block.load_floats<kTogether>(static_cast<const float*>(p) + offset);
    }
    return values;
}

template <bool kTruth>
HEADROOM_DEVICE void store_together(Block& block, void* p, Dtype dtype, std::int64_t offset,
                                    const Floats<kTogether>& values) {
    if (dtype == Dtype::f16) {
        block.store_floats(static_cast<f16*>(p) + offset, values);
    } else if (dtype == Dtype::bf16) {
        block.store_floats(static_cast<bf16*>(p) + offset, values);
    } else if (kTruth && dtype == Dtype::boolean) {
        device::Vector<std::uint8_t, kTogether> bytes;
#pragma unroll
        for (int k = 0; k < kTogether; ++k) bytes[k] = values[k] != 0.0f ? 1 : 0;
        block.store(static_cast<std::uint8_t*>(p) + offset, bytes);
    } else {
        block.store_floats(static_cast<float*>(p) + offset, values);
    }
}

template <class E, class T>
struct PointwiseGeneral {
    static constexpr unsigned kMaxThreads = kPointwiseThreads;
    E function;

    HEADROOM_DEVICE void operator()(Block& block, Strided<E::kInputs + 1> at, float beta) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const auto offsets = at.offsets(i);
            Inputs<T, E::kInputs> in;
#pragma unroll
            for (int k = 0; k < E::kInputs; ++k) in[k] = at.template load<T>(k + 1, offsets);
            if constexpr (E::kAccumulates) {
                at.template accumulate<T>(0, offsets, beta, function(in));
            } else {
                at.template store<T>(0, offsets, function(in));
            }
        }
    }
};

template <class E>
struct PointwiseFast {
    static constexpr unsigned kMaxThreads = kPointwiseThreads;
    E function;

    HEADROOM_DEVICE void operator()(Block& block, Strided<E::kInputs + 1> at, float beta) const {
        const std::int64_t whole = at.numel() / kTogether;
        for (std::int64_t i = block.global_thread(); i < whole; i += block.global_threads()) {
            compute_together(block, at, at.offsets(i * kTogether), beta);
        }
        const std::int64_t last = whole * kTogether + block.global_thread();  // fewer than the threads of a block
        if (last < at.numel()) compute_last(at, last, beta);
    }

    HEADROOM_DEVICE void compute_together(Block& block, const Strided<E::kInputs + 1>& at,
                                          const device::Offsets<E::kInputs + 1>& offsets, float beta) const {
        Inputs<Floats<kTogether>, E::kInputs> in;
#pragma unroll
        for (int k = 0; k < E::kInputs; ++k) {
            in[k] = load_together<E::kTruthIn>(block, at.data(k + 1), at.dtype(k + 1), offsets[k + 1],
                                               at.stride(k + 1) == 0);
        }
        Floats<kTogether> out;
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
            Inputs<float, E::kInputs> one;
#pragma unroll
            for (int k = 0; k < E::kInputs; ++k) one[k] = in[k][j];
            out[j] = function(one);
        }
        if constexpr (E::kAccumulates) {
            if (beta != 0.0f) {
                const auto old = load_together<false>(block, at.data(0), at.dtype(0), offsets[0], false);
#pragma unroll
                for (int j = 0; j < kTogether; ++j) out[j] += beta * old[j];
            }
        }
        store_together<E::kTruthOut>(block, at.data(0), at.dtype(0), offsets[0], out);
    }

    /// Computes one of the leftover elements, which exist only with a single axis.
    HEADROOM_DEVICE void compute_last(const Strided<E::kInputs + 1>& at, std::int64_t i, float beta) const {
        Inputs<float, E::kInputs> in;
#pragma unroll
        for (int k = 0; k < E::kInputs; ++k)
            in[k] = load_fast<E::kTruthIn>(at.data(k + 1), at.dtype(k + 1), i * at.stride(k + 1));
        float out = function(in);
        if (E::kAccumulates && beta != 0.0f) out += beta * load_fast<false>(at.data(0), at.dtype(0), i);
        store_fast<E::kTruthOut>(at.data(0), at.dtype(0), i, out);
    }
};

/// True if the fast kernel can run: each group of eight elements is neighbours in one row, aligned, or one repeated
/// element.
template <class E>
bool fits_together(const Strided<E::kInputs + 1>& at) {
    if (at.axes() > 1 && at.row_size() % kTogether != 0) return false;
    for (int k = 0; k <= E::kInputs; ++k) {
        if (!is_fast(at.dtype(k), k == 0 ? E::kTruthOut : E::kTruthIn)) return false;
        if (k > 0 && at.stride(k) == 0) continue;
        if (at.stride(k) != 1) return false;
        const auto size = static_cast<std::int64_t>(size_of(at.dtype(k)));
        const std::int64_t access = std::min<std::int64_t>(16, kTogether * size);
        if (static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(at.data(k)) & 15) % access != 0) return false;
        for (int axis = 1; axis < at.axes(); ++axis) {
            if (at.stride(k, axis) * size % access != 0) return false;
        }
    }
    return true;
}

/// output = beta output + function(inputs...), computed in T; the output is the first of the views.
template <class T, class E>
void run_pointwise(CudaStream& stream, const E& function, const View* const (&views)[E::kInputs + 1], float beta) {
    const Strided<E::kInputs + 1> at(views);
    const auto start = [&](const auto& kernel, std::int64_t together) {
        const std::uint32_t blocks = device::grid_for(stream, at.numel(), kPointwiseThreads * together);
        device::launch(stream, {.x = blocks, .loops = true, .threads = kPointwiseThreads}, kernel, at, beta);
    };
    if constexpr (std::is_same_v<T, float>) {
        if (fits_together<E>(at)) return start(PointwiseFast<E>{function}, kTogether);
    }
    start(PointwiseGeneral<E, T>{function}, 1);
}

/// The same, computed in f64 if any view is f64, else in f32.
template <class E>
void run_pointwise_floating(CudaStream& stream, const E& function, const View* const (&views)[E::kInputs + 1],
                            float beta) {
    bool wide = false;
    for (const View* view : views) wide = wide || view->dtype == Dtype::f64;
    wide ? run_pointwise<double>(stream, function, views, beta) : run_pointwise<float>(stream, function, views, beta);
}

}  // namespace headroom::kernels::detail
