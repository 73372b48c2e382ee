#include <headroom/kernels/random/words.hpp>

namespace headroom::kernels {

const std::uint32_t* RandomWords::generate(const RandomKey& key, std::int64_t first, std::int64_t count) {
    const std::int64_t block = first / 4;
    const std::int64_t blocks = (first + count + 3) / 4 - block;
    const RandomKey local = key;
    std::uint32_t* out = words_;
#pragma omp simd
    for (std::int64_t i = 0; i < blocks; ++i) {
        const PhiloxBlock words = philox(local, static_cast<std::uint64_t>(block + i));
        out[4 * i] = words[0];
        out[4 * i + 1] = words[1];
        out[4 * i + 2] = words[2];
        out[4 * i + 3] = words[3];
    }
    return words_ + first % 4;
}

}  // namespace headroom::kernels
