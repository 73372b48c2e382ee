#pragma once
// Images [N, C, H, W] as lists of pixels, each a run of channels: for kernels that treat all channels alike and combine
// several pixels (taps) into one. Fast if channels are adjacent in memory.
//
//     const Rows in(pixels_of(x));                                   // rows.hpp
//     Taps<float> taps;
//     taps.add(in, (n * height + h) * width + w, begin, count, 0.5f);   // one pixel
//     add_taps(taps, true, count, sums);                                // sums[c] = 0.5 x[n, begin + c, h, w]
#include <cstring>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// [N, C, H, W] as [N, H, W, C].
inline View pixels_of(const View& x) {
    return {x.data,
            x.dtype,
            {x.size(0), x.size(2), x.size(3), x.size(1)},
            {x.stride(0), x.stride(2), x.stride(3), x.stride(1)}};
}

inline constexpr std::int64_t kTaps = 16;  ///< combined at a time

/// At most kChunk channels of several pixels as T, each pixel with a factor.
template <class T>
struct Taps {
    void add(const Rows& pixels, std::int64_t pixel, std::int64_t begin, std::int64_t channels, T with) {
        at[count] = pixels.read(pixel, begin, channels, buffers[count]);
        number[count++] = with;
    }
    int count = 0;
    const T* at[kTaps];
    T number[kTaps];
    T buffers[kTaps][kChunk];
};

/// Calls `work(TypeTag<V>{}, c)` over [0, count): with a vector type V for its elements from c on, and with T for
/// single elements.
template <class T, class Work>
void for_each_lanes(std::int64_t count, Work&& work) {
    std::int64_t c = 0;
    for (; c + kLanes<T> <= count; c += kLanes<T>) work(TypeTag<Lanes<T>>{}, c);
    for (; c < count; ++c) work(TypeTag<T>{}, c);
}
template <class V, class T>
V load_run(const T* source) {
    V values;
    std::memcpy(&values, source, sizeof(V));
    return values;
}
template <class V, class T>
void store_run(const V& values, T* target) {
    std::memcpy(target, &values, sizeof(V));
}

/// sums += the weighted taps, which are then cleared; if `first`, sums = the weighted taps.
template <class T>
void add_taps(Taps<T>& taps, bool first, std::int64_t count, T* sums) {
    for_each_lanes<T>(count, [&]<class V>(TypeTag<V>, std::int64_t c) {
        V sum = first ? V{} : load_run<V>(sums + c);
        for (int i = 0; i < taps.count; ++i) sum += taps.number[i] * load_run<V>(taps.at[i] + c);
        store_run(sum, sums + c);
    });
    taps.count = 0;
}

}  // namespace headroom::kernels
