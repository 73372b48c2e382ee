#include <bit>
#include <headroom/tests/simt/running_block.hpp>

namespace headroom::simt {
namespace {

constexpr int kTile = 16;

// Where an element of a 16 x 16 tile is: lane row * 2 + column / 8, element column % 8.
const float& element(const CudaThread* warp, const float* CudaThread::*part, int row, int column) {
    return (warp[row * 2 + column / 8].*part)[column % 8];
}

void multiply(CudaThread* warp) {
    for (int row = 0; row < kTile; ++row) {
        for (int column = 0; column < kTile; ++column) {
            float& sum = warp[row * 2 + column / 8].c[column % 8];
            for (int k = 0; k < kTile; ++k)
                sum += element(warp, &CudaThread::a, row, k) * element(warp, &CudaThread::b, k, column);
        }
    }
}

}  // namespace

CudaThread* complete(CudaThread* warp, std::uint32_t mask) {
    CudaThread& first = warp[std::countr_zero(mask)];
    std::uint32_t votes = 0;
    for (unsigned lane = 0; lane < kernels::device::kWarp; ++lane)
        if (mask >> lane & 1u && warp[lane].given[0]) votes |= 1u << lane;
    for (unsigned lane = 0; lane < kernels::device::kWarp; ++lane) {
        if (!(mask >> lane & 1u)) continue;
        CudaThread& thread = warp[lane];
        if (first.collective == CudaThread::Collective::ballot) thread.result = votes;
        if (first.collective == CudaThread::Collective::shuffle) {
            if (thread.given[1] >= kernels::device::kWarp || !(mask >> thread.given[1] & 1u)) {
                thread.failure =
                    "a shuffle reads lane " + std::to_string(thread.given[1]) + ", which is not in its mask";
                return &thread;
            }
            thread.result = warp[thread.given[1]].given[0];
        }
        if (first.collective == CudaThread::Collective::agree &&
            (thread.given[0] != first.given[0] || thread.given[1] != first.given[1])) {
            thread.failure = "the lanes of a warp give different addresses or strides for one tile";
            return &thread;
        }
    }
    if (first.collective == CudaThread::Collective::multiply_add) multiply(warp);
    return nullptr;
}

}  // namespace headroom::simt
