#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt::test_kernels {
namespace {

using namespace headroom::kernels::device;

template <class T>
struct RowSum {
    static constexpr unsigned kMaxThreads = 256;
    static constexpr int kWidth = kWide<T>;

    HEADROOM_DEVICE void operator()(Block& block, const T* x, float* y, std::int64_t columns) const {
        const T* row = x + block.x() * columns;
        float sum = 0.0f;
        std::int64_t done = 0;
        if (columns % kWidth == 0) {  // else rows begin anywhere
            done = columns;
            for (std::int64_t i = block.thread() * kWidth; i < columns; i += block.threads() * kWidth) {
                const Floats<kWidth> part = block.load_floats<kWidth>(row + i);
                for (int k = 0; k < kWidth; ++k) sum += part[k];
            }
        }
        for (std::int64_t i = done + block.thread(); i < columns; i += block.threads()) sum += as_float(row[i]);
        sum = block.sum(sum, block.shared<float>(block.warps()));
        if (block.thread() == 0) y[block.x()] = sum;
    }
};

}  // namespace

template <class T>
void row_sum(kernels::device::Stream stream, const T* x, float* y, std::int64_t rows, std::int64_t columns) {
    const unsigned threads = columns > 512 ? 256 : 64;
    const LaunchShape shape{
        .x = blocks_for(rows, 1), .threads = threads, .shared_bytes = shared_size<float>(threads / kWarp)};
    launch(stream, shape, RowSum<T>{}, x, y, columns);
}

template void row_sum(kernels::device::Stream, const float*, float*, std::int64_t, std::int64_t);
template void row_sum(kernels::device::Stream, const f16*, float*, std::int64_t, std::int64_t);
template void row_sum(kernels::device::Stream, const bf16*, float*, std::int64_t, std::int64_t);

}  // namespace headroom::simt::test_kernels
