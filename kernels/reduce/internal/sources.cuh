#pragma once
// The elements that CUDA reductions read: groups of neighbours, or single elements.
//
//     const Numbers<float, 8> values = source.load(block, offset);      // offsets in elements
//     const float value = source.one(offset);
//
// A group has the same elements wherever the array begins: if that is not a multiple of 16 bytes, `AnyEights` reads
// them one by one, and results have the same bits.
#include <cstdint>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/elements.hpp>

namespace headroom::kernels {

/// In registers: index it only with loop variables of unrolled loops.
template <class T, int N>
struct Numbers {
    T at[N];
    HEADROOM_DEVICE T& operator[](int i) { return at[i]; }
    HEADROOM_DEVICE const T& operator[](int i) const { return at[i]; }
};

/// Groups of eight of f32, f16 or bf16 that begin at multiples of 16 bytes.
template <class Element>
struct AlignedEights {
    static constexpr int kWidth = 8;
    using Number = float;
    const Element* data;

    HEADROOM_DEVICE Numbers<float, 8> load(device::Block& block, std::int64_t offset) const {
        const device::Floats<8> values = block.load_floats<8>(data + offset);
        Numbers<float, 8> result;
        for (int k = 0; k < 8; ++k) result[k] = values[k];
        return result;
    }
    HEADROOM_DEVICE float one(std::int64_t offset) const { return device::as_float(data[offset]); }
};

/// The same for a dtype known at run time and any alignment.
struct AnyEights {
    static constexpr int kWidth = 8;
    using Number = float;
    const void* data;
    Dtype dtype;
    bool aligned;  ///< to 16 bytes

    HEADROOM_DEVICE Numbers<float, 8> load(device::Block& block, std::int64_t offset) const {
        if (dtype == Dtype::f16) return load_of<f16>(block, offset);
        if (dtype == Dtype::bf16) return load_of<bf16>(block, offset);
        return load_of<float>(block, offset);
    }
    HEADROOM_DEVICE float one(std::int64_t offset) const { return device::load_as<float>(data, dtype, offset); }

  private:
    template <class Element>
    HEADROOM_DEVICE Numbers<float, 8> load_of(device::Block& block, std::int64_t offset) const {
        const AlignedEights<Element> eights{static_cast<const Element*>(data)};
        if (aligned) return eights.load(block, offset);
        Numbers<float, 8> result;
        for (int k = 0; k < 8; ++k) result[k] = eights.one(offset + k);
        return result;
    }
};

/// Single elements of any dtype, computed in T.
template <class T>
struct AnyElements {
    static constexpr int kWidth = 1;
    using Number = T;
    const void* data;
    Dtype dtype;

    HEADROOM_DEVICE Numbers<T, 1> load(device::Block&, std::int64_t offset) const { return {{one(offset)}}; }
    HEADROOM_DEVICE T one(std::int64_t offset) const { return device::load_as<T>(data, dtype, offset); }
};

/// The loop of all a thread's work: four loads in flight at a time, and `flush` after 32 elements per accumulator, so
/// that f32 errors do not grow with the length.
template <class Load, class Add, class Flush>
HEADROOM_DEVICE void in_fours(std::int64_t i, std::int64_t end, std::int64_t step, Load&& load, Add&& add,
                              Flush&& flush) {
    int pending = 0;
    for (; i + 3 * step < end; i += 4 * step) {
        const auto a = load(i), b = load(i + step), c = load(i + 2 * step), d = load(i + 3 * step);
        add(a), add(b), add(c), add(d);
        if (++pending < 8) continue;
        flush();
        pending = 0;
    }
    for (; i < end; i += step) add(load(i));
    flush();
}

}  // namespace headroom::kernels
