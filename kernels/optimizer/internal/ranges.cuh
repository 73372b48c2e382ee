#pragma once
// How CUDA kernels walk over flat ranges of one size: in 16-byte accesses if all ranges have the same offset from a
// multiple of 16 bytes, with single elements before and after; otherwise only single elements.
//
//     const FlatRange range(count, {x, y}, sizeof(float));
//     range.for_each_vector<4>(block, [&](std::int64_t i) { ... elements i to i + 3 ... });
//     range.for_each_single<4>(block, [&](std::int64_t i) { ... });
#include <bit>
#include <cstdint>
#include <initializer_list>

#include <headroom/kernels/device/launch.hpp>

namespace headroom::kernels {

struct FlatRange {
    std::int64_t head = 0;     ///< single elements before the first vector
    std::int64_t vectors = 0;  ///< of 16 bytes
    std::int64_t singles = 0;  ///< head included

    FlatRange(std::int64_t count, std::initializer_list<const void*> starts, std::size_t element) {
        const auto misaligned = [](const void* p) { return std::bit_cast<std::uintptr_t>(p) % 16; };
        const std::size_t first = misaligned(*starts.begin());
        bool alike = true;
        for (const void* start : starts) alike = alike && misaligned(start) == first;
        const auto width = static_cast<std::int64_t>(16 / element);
        head = alike ? static_cast<std::int64_t>((16 - first) % 16 / element) : count;
        if (head > count) head = count;
        vectors = (count - head) / width;
        singles = count - vectors * width;
    }

    /// The most steps of a thread if the grid has this many threads.
    std::int64_t steps() const { return vectors > singles ? vectors : singles; }

    template <int Width, class Work>
    HEADROOM_DEVICE void for_each_vector(device::Block& block, Work&& work) const {
        for (std::int64_t i = block.global_thread(); i < vectors; i += block.global_threads()) work(head + i * Width);
    }
    template <int Width, class Work>
    HEADROOM_DEVICE void for_each_single(device::Block& block, Work&& work) const {
        for (std::int64_t i = block.global_thread(); i < singles; i += block.global_threads()) {
            work(i < head ? i : i + vectors * Width);
        }
    }
};

}  // namespace headroom::kernels
