#include <headroom/kernels/fill/fill.hpp>

#include <algorithm>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

void fill(CpuStream& stream, double value, const View& y) {
    dispatch(y.dtype, [&]<class Element>(TypeTag<Element>) {
        Element element;
        store_one(value, &element, y.dtype);
        const Walk walk({&y});
        const std::int64_t stride = walk.stride(0);
        for_each_run(stream, walk, kShare, y.numel(),
                     [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
                         auto* target = reinterpret_cast<Element*>(cursor.at(0, first));
                         if (stride == 1) {
                             std::fill_n(target, count, element);
                         } else {
                             for (std::int64_t i = 0; i < count; ++i) target[i * stride] = element;
                         }
                     });
    });
}

void arange(CpuStream& stream, double start, double step, const View& y) {
    const std::int64_t n = y.numel();
    parallel_for(stream, (n + kChunk - 1) / kChunk, n, [&](std::int64_t chunk) {
        const std::int64_t first = chunk * kChunk;
        const std::int64_t count = std::min(kChunk, n - first);
        double values[kChunk];
        for (std::int64_t i = 0; i < count; ++i) values[i] = start + static_cast<double>(first + i) * step;
        store(values, count, y.at(first * y.stride(0)), y.dtype, y.stride(0));
    });
}

void causal_mask(CpuStream& stream, const View& y) {
    const std::int64_t queries = y.size(0);
    const std::int64_t keys = y.size(1);
    dispatch(y.dtype, [&]<class Element>(TypeTag<Element>) {
        Element no, yes;
        store_one(0.0, &no, y.dtype);
        store_one(1.0, &yes, y.dtype);
        parallel_for(stream, queries, y.numel(), [&](std::int64_t t) {
            auto* row = reinterpret_cast<Element*>(y.at(t * y.stride(0)));
            for (std::int64_t s = 0; s < keys; ++s) row[s * y.stride(1)] = s <= t + keys - queries ? yes : no;
        });
    });
}

}  // namespace headroom::kernels
