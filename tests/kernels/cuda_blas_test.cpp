// What cuBLASLt is told, tried on NVIDIA's library where it is installed: that needs no GPU.
#include <headroom/kernels/matmul/internal/cuda_blas_description.hpp>

#include <cstdlib>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/random_matmul.hpp>

namespace headroom::kernels {
namespace cuda_blas_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(BlasApi, SaysWhatToDoWhereItIsNotInstalled) {
    EXPECT_THAT(
        [] {
            load_blas({"libnosuch.so.1", "/nowhere/libnosuch.so.1"});
        },
        ThrowsMessage<DeviceError>(AllOf(HasSubstr("matmul: cuBLASLt can't be loaded (libnosuch.so.1:"),
                                         HasSubstr("; /nowhere/libnosuch.so.1: "), HasSubstr("install NVIDIA's cuBLAS"),
                                         HasSubstr("HEADROOM_CUBLASLT"), HasSubstr("own_kernels"))));
    EXPECT_THAT([] { load_blas({"libm.so.6"}); },
                ThrowsMessage<DeviceError>(HasSubstr(
                    "matmul: cuBLASLt (libm.so.6) lacks the function cublasLtCreate; install NVIDIA's cuBLAS")));
}

TEST(BlasApi, IsOnTheLoadersPathOrWhereTheBuildFoundItOrTheFileThatAVariableNames) {
    std::vector<std::string> files{"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
    const std::string found = HEADROOM_CUBLAS_FOUND;  // a folder
    if (!found.empty()) files.push_back(found + "/" + files.front());
    EXPECT_EQ(blas_libraries(), files);
    setenv("HEADROOM_CUBLASLT", "/mine/libcublasLt.so", 1);
    EXPECT_THAT(blas_libraries(), ::testing::ElementsAre("/mine/libcublasLt.so"));
    unsetenv("HEADROOM_CUBLASLT");
}

TEST(BlasApi, NvidiasLibraryTakesEveryDescription) {
    BlasApi api;
    try {
        api = load_blas();
    } catch (const DeviceError& error) {
        GTEST_SKIP() << error.what();
    }
    EXPECT_EQ(api.cublasLtGetVersion() / 10000, CUBLAS_VER_MAJOR);
    std::mt19937_64 random(1);
    int described = 0, inner = 0, derivatives = 0, sums = 0;
    for (int i = 0; i < 3000; ++i) {
        const Dtype operand = test::kFloating[random() % 4];
        const test::RandomMatmul product(random, operand, is_half(operand) && i % 4 < 2 ? Dtype::f32 : operand,
                                         i % 2 == 1);
        const Matmul& matmul = product.matmul();
        const auto gemm = plan_gemm(reduce(matmul), matmul);
        if (!gemm) continue;
        const BlasDescription description(api, *gemm, i % 3 == 0);
        if (gemm->bias || gemm->sums) description.set_bias(gemm->sums ? matmul.sums.data : matmul.bias.data);
        if (gemm->has_inner()) description.set_inner(matmul.inner.data);
        ++described;
        inner += gemm->inner;
        derivatives += gemm->derivative;
        sums += gemm->sums;
    }
    EXPECT_GT(described, 1000);
    for (const int count : {inner, derivatives, sums}) EXPECT_GT(count, 10);
    for (const Dtype result : test::kFloating) {
        const BlasPreference preference(api, result, {.a = 2, .b = 4, .d = 16});
        EXPECT_NE(preference.get(), nullptr);
    }
}

}  // namespace cuda_blas_test
}  // namespace headroom::kernels
