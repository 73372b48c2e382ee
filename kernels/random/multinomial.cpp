#include <headroom/kernels/random/multinomial.hpp>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/random/internal/draws.hpp>
#include <headroom/kernels/random/internal/words.hpp>
#include <headroom/kernels/rows.hpp>

// Compiled without contraction of multiplications and additions: bits must equal those of other devices.

namespace headroom::kernels {

void race(CpuStream& stream, const RandomKey& key, const View& weights, const View& times) {
    if (times.numel() == 0) return;
    const Rows in(weights), out(times);
    parallel_for(stream, in.count(), 16 * times.numel(), [&](std::int64_t row) {
        for_each_chunk(in.length(), [&](std::int64_t begin, std::int64_t count) {
            RandomWords words;
            const std::uint32_t* word = words.generate(key, row * in.length() + begin, count);
            float values[kChunk];
            load(in.at(row, begin), weights.dtype, in.stride(), count, values);
            for (std::int64_t i = 0; i < count; ++i) values[i] = exponential_from(word[i]) / values[i];
            store(values, count, out.at(row, begin), times.dtype, out.stride());
        });
    });
}

void pick(CpuStream& stream, const RandomKey& key, const View& weights, const View& sums, const View& y) {
    if (y.numel() == 0) return;
    const Rows in(weights), out(y);
    parallel_for(stream, out.count(), 64 * y.numel(), [&](std::int64_t row) {
        const double* line = sums.as<const double>() + row * in.length();
        for (std::int64_t i = 0; i < out.length(); ++i) {
            const auto element = static_cast<std::uint64_t>(row * out.length() + i);
            const double share = (philox(key, element / 4)[element % 4] + 0.5) * 0x1p-32;
            const std::int64_t drawn = position_of(share, line, in.length(), [&](std::int64_t k) {
                return load_one<float>(in.at(row, k), weights.dtype);
            });
            *reinterpret_cast<std::int64_t*>(out.at(row, i)) = drawn;
        }
    });
}

}  // namespace headroom::kernels
