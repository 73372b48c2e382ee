#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt::test_kernels {
namespace {

using namespace headroom::kernels::device;

constexpr int kTile = 16;
constexpr unsigned kWarps = 4;

// Tiles go through shared memory, where they are filled up with zeros. Each warp works for itself, in its part of it.
template <class T>
struct Matmul {
    static constexpr unsigned kMaxThreads = kWarps * kWarp;
    static constexpr int kCapability = kTensorCapability<T>;

    HEADROOM_DEVICE void operator()(Block& block, const T* a, const T* b, float* c, std::int64_t m, std::int64_t n,
                                    std::int64_t k) const {
        const int size = kTile * kTile, part = block.warp() * size;
        const Shared<T> left = block.shared<T>(kWarps * size), right = block.shared<T>(kWarps * size);
        const Shared<float> result = block.shared<float>(kWarps * size);
        const std::int64_t row = (std::int64_t{block.y()} * kWarps + block.warp()) * kTile;
        const std::int64_t column = std::int64_t{block.x()} * kTile;
        Tile<Operand::a, T> tile_a;
        Tile<Operand::b, T, Layout::column> tile_b;
        Accumulator sum;
        block.fill(sum, 0.0f);
        for (std::int64_t begin = 0; begin < k; begin += kTile) {
            for (int i = block.lane(); i < size; i += kWarp) {
                const std::int64_t at = begin + i % kTile, i_a = row + i / kTile, i_b = column + i / kTile;
                left[part + i] = at < k && i_a < m ? a[i_a * k + at] : T{};
                right[part + i] = at < k && i_b < n ? b[i_b * k + at] : T{};
            }
            block.warp_sync();
            block.load_tile(tile_a, left, part, kTile);
            block.load_tile(tile_b, right, part, kTile);
            block.multiply_add(sum, tile_a, tile_b);
            block.warp_sync();  // before the next round overwrites the tiles
        }
        block.store_tile(result, part, sum, kTile);
        block.warp_sync();
        for (int i = block.lane(); i < size; i += kWarp)
            if (row + i / kTile < m && column + i % kTile < n)
                c[(row + i / kTile) * n + column + i % kTile] = result[part + i];
    }
};

}  // namespace

template <class T>
void matmul(kernels::device::Stream stream, const T* a, const T* b, float* c, std::int64_t m, std::int64_t n,
            std::int64_t k) {
    const int elements = kWarps * kTile * kTile;
    const LaunchShape shape{.x = blocks_for(n, kTile),
                            .y = blocks_for(m, kTile * kWarps),
                            .threads = Matmul<T>::kMaxThreads,
                            .shared_bytes = 2 * shared_size<T>(elements) + shared_size<float>(elements)};
    launch(stream, shape, Matmul<T>{}, a, b, c, m, n, k);
}

template void matmul(kernels::device::Stream, const f16*, const f16*, float*, std::int64_t, std::int64_t, std::int64_t);
template void matmul(kernels::device::Stream, const bf16*, const bf16*, float*, std::int64_t, std::int64_t,
                     std::int64_t);

}  // namespace headroom::simt::test_kernels
