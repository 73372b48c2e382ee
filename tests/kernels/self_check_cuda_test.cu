// The kernel that asks all functions of `Block`, for a GPU.
#include <headroom/tests/simt/kernels/self_check.cu>

namespace headroom::simt::test_kernels {

void self_check(kernels::CudaStream& stream, int* wrong, float* global, f16* halves, std::int64_t blocks) {
    start(stream, wrong, global, halves, blocks);
}

}  // namespace headroom::simt::test_kernels
