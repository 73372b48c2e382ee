#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt::test_kernels {
namespace {

using namespace headroom::kernels::device;

struct PrefixSum {
    static constexpr unsigned kMaxThreads = 64;

    HEADROOM_DEVICE void operator()(Block& block, const int* x, int* y, std::int64_t rows, std::int64_t columns) const {
        const std::int64_t row = std::int64_t{block.x()} * block.warps() + block.warp();
        if (row >= rows) return;  // whole warps, and nothing below waits for the block
        int carry = 0;
        for (std::int64_t base = 0; base < columns; base += kWarp) {
            const std::int64_t i = base + block.lane();
            int sum = i < columns ? x[row * columns + i] : 0;
            for (unsigned step = 1; step < kWarp; step *= 2) {
                const int left = block.shuffle_up(kFullWarp, sum, step);
                if (block.lane() >= step) sum += left;
            }
            sum += carry;
            if (i < columns) y[row * columns + i] = sum;
            carry = block.shuffle(kFullWarp, sum, kWarp - 1);
        }
    }
};

}  // namespace

void prefix_sum(kernels::device::Stream stream, const int* x, int* y, std::int64_t rows, std::int64_t columns) {
    launch(stream, {.x = blocks_for(rows, 2), .threads = PrefixSum::kMaxThreads}, PrefixSum{}, x, y, rows, columns);
}

}  // namespace headroom::simt::test_kernels
