// All that `Block` promises, asked by a kernel: what simt/block_test asks of the emulator, on a GPU.
#include <gmock/gmock.h>

#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::simt::test_kernels {
void self_check(kernels::CudaStream& stream, int* wrong, float* global, kernels::f16* halves, std::int64_t blocks);
}

namespace headroom::kernels {
namespace self_check_cuda_test {

using SelfCheckCuda = test::CudaTest;

TEST_F(SelfCheckCuda, EveryFunctionOfBlockDoesWhatItPromises) {
    std::vector<int> wrong(5, -1);
    std::byte *const answers = gpu->scratch(5 * sizeof(int)), *const floats = gpu->scratch(5 * 384 * sizeof(float)),
                     *const halves = gpu->scratch(5 * 768 * sizeof(f16));
    simt::test_kernels::self_check(gpu->stream, reinterpret_cast<int*>(answers), reinterpret_cast<float*>(floats),
                                   reinterpret_cast<f16*>(halves), 5);
    gpu->device->copy_to_host(answers, wrong.data(), 5 * sizeof(int));
    EXPECT_THAT(wrong, testing::Each(0));
}

}  // namespace self_check_cuda_test
}  // namespace headroom::kernels
