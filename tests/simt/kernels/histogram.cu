#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt::test_kernels {
namespace {

using namespace headroom::kernels::device;

constexpr unsigned kBins = 64;

struct Histogram {
    static constexpr unsigned kMaxThreads = 128;

    HEADROOM_DEVICE void operator()(Block& block, const int* x, int* bins, std::int64_t n) const {
        const Shared<int> counts = block.shared<int>(kBins);
        if (block.thread() < kBins) counts[block.thread()] = 0;
        block.sync();
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads())
            block.atomic_add(counts, x[i], 1);
        block.sync();
        if (block.thread() < kBins) block.atomic_add(bins + block.thread(), counts[block.thread()]);
    }
};

}  // namespace

void histogram(kernels::device::Stream stream, const int* x, int* bins, std::int64_t n) {
    const LaunchShape shape{
        .x = blocks_for(n, 256), .threads = Histogram::kMaxThreads, .shared_bytes = shared_size<int>(kBins)};
    launch(stream, shape, Histogram{}, x, bins, n);
}

}  // namespace headroom::simt::test_kernels
