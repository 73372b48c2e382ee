// Products through cuBLASLt: what it is asked for, how often, and what an error says. For tuning see
// cuda_gemm_tuning_test.cpp.
#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/gemm_on_fake_blas.hpp>
#include <headroom/tests/kernels/random_matmul.hpp>

namespace headroom::kernels {
namespace cuda_gemm_test {

using test::Ones;
using test::RandomMatmul;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using BlasGemm = test::GemmOnFakeBlas;

TEST_F(BlasGemm, ComputesRandomProducts) {
    std::mt19937_64 random(2);
    int computed = 0;
    for (int i = 0; i < 8000; ++i) {
        const Dtype operand = test::kFloating[random() % 4];
        RandomMatmul product(random, operand, is_half(operand) && random() % 2 == 0 ? Dtype::f32 : operand, i % 2 == 1);
        SCOPED_TRACE("seed 2, product " + std::to_string(i) + ": " + product.to_string());
        const std::vector<double> expected = product.expected();
        if (!matmul_by_library(product.matmul())) continue;
        ASSERT_EQ(fake.problem, "");
        ASSERT_EQ(product.result(), expected);
        ASSERT_TRUE(product.gaps_untouched());
        ++computed;
    }
    EXPECT_GT(computed, 1000);
    for (const int count : met) EXPECT_GT(count, 10);
}

TEST_F(BlasGemm, AsksForAnAlgorithmOncePerProductAndAlignment) {
    Ones ones;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_TRUE(ones.all(5));
    ones.matmul.beta = 1;  // does not matter
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_TRUE(ones.all(10));
    alignas(256) float moved[21];
    std::fill(std::begin(moved), std::end(moved), 2.0f);
    ones.matmul.beta = 0;
    ones.matmul.a.data = moved + 1;
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_TRUE(ones.all(10));
    EXPECT_EQ(fake.proposals, 2);
    EXPECT_EQ(choices.size(), 2);
    EXPECT_EQ(fake.last_algorithm, 0);
}

TEST_F(BlasGemm, AsksAnewWhereWhatIsBesideTheResultIsLessAligned) {
    alignas(256) f16 a[64] = {}, b[64] = {}, c[64], inner[72] = {}, sums[16];
    const auto square = [](f16* data) { return contiguous_view(data, Dtype::f16, {8, 8}); };
    Matmul backward{.a = square(a), .b = square(b), .c = square(c), .activation = Activation::gelu_tanh};
    backward.derivative = true;
    Matmul weight{.a = square(a), .b = square(b), .c = square(c)};
    for (const int offset : {0, 1, 8, 0, 1, 8}) {  // in elements
        backward.inner = square(inner + offset);
        EXPECT_TRUE(matmul_by_library(backward));
        weight.sums = contiguous_view(sums + offset, Dtype::f16, {8});
        EXPECT_TRUE(matmul_by_library(weight));
        EXPECT_EQ(fake.problem, "");
    }
    EXPECT_EQ(fake.proposals, 6);
    EXPECT_EQ(met[1] + met[4], 12);
}

TEST_F(BlasGemm, MultipliesF32ExactlyUnlessTf32IsAskedFor) {
    Ones ones;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    EXPECT_EQ(fake.compute_type, CUBLAS_COMPUTE_32F);
    options.tf32 = true;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    EXPECT_EQ(fake.compute_type, CUBLAS_COMPUTE_32F_FAST_TF32);
}

/// Where the depth is split, the parts of a half must not be rounded before they are added; others may lie anywhere.
TEST_F(BlasGemm, AddsPartsOfTheDepthInF32) {
    alignas(256) bf16 a[64] = {}, b[64] = {}, half[64];
    alignas(256) float wide[64];
    const auto square = [](auto* data, Dtype dtype) { return contiguous_view(data, dtype, {8, 8}); };
    Matmul matmul{.a = square(a, Dtype::bf16), .b = square(b, Dtype::bf16), .c = square(half, Dtype::bf16)};
    EXPECT_TRUE(run(matmul));
    EXPECT_EQ(fake.reductions, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    matmul.c = square(wide, Dtype::f32);
    EXPECT_TRUE(run(matmul));
    EXPECT_EQ(fake.reductions, CUBLASLT_REDUCTION_SCHEME_MASK);
}

TEST_F(BlasGemm, SavesAndLoadsThroughTheStream) {
    Ones ones;
    EXPECT_TRUE(matmul_by_library(ones.matmul));
    CudaStream stream{.state = &state, .device = &device};
    const std::string path = ::testing::TempDir() + "stream_choices.txt";
    save_matmul_choices(stream, path);
    state.get<MatmulChoices>() = {};
    EXPECT_TRUE(load_matmul_choices(stream, path));
    EXPECT_EQ(state.get<MatmulChoices>().size(), 1);
}

TEST_F(BlasGemm, SaysWhenThereIsNoAlgorithm) {
    Ones ones;
    fake.refuse = true;
    EXPECT_FALSE(run(ones.matmul));
    EXPECT_FALSE(run(ones.matmul));
    EXPECT_EQ(fake.proposals, 1);
    EXPECT_TRUE(ones.all(1));
    EXPECT_EQ(choices.size(), 0);
}

TEST_F(BlasGemm, RemembersACallThatIsRefused) {
    Ones ones;
    fake.failing_algorithm = 0;
    EXPECT_FALSE(run(ones.matmul));
    fake.failing_algorithm = -1;
    EXPECT_FALSE(run(ones.matmul));
    EXPECT_TRUE(ones.all(1));
}

/// It may be the capture that is refused; another kernel in its place would have other bits than the work without.
TEST_F(BlasGemm, ARefusalInACaptureIsAnErrorThatIsNotRemembered) {
    Ones ones;
    fake.failing_algorithm = 0;
    EXPECT_THAT([&] { run(ones.matmul, {.capturing = true}); }, ThrowsMessage<DeviceError>(HasSubstr("for 6 x 4 x 5")));
    fake.failing_algorithm = -1;
    EXPECT_TRUE(run(ones.matmul));
    EXPECT_TRUE(ones.all(5));
}

TEST_F(BlasGemm, SaysWhetherItWasMemoryThatIsMissing) {
    const BlasApi api = load_blas({HEADROOM_FAKE_CUBLASLT});
    EXPECT_THROW(check_blas(api, "cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED), memory::OutOfMemory);
    EXPECT_THROW(check_blas(api, "cublasLtCreate", CUBLAS_STATUS_INTERNAL_ERROR), DeviceError);
}

TEST_F(BlasGemm, AReportSaysThatThereIsNoMemoryForTheLibrary) {
    CudaStream stream{.state = &state, .device = &device};
    device.full = true;
    EXPECT_EQ(gemm_library(stream), "no memory");
}

TEST_F(BlasGemm, NamesTheCallTheStatusAndTheProductThatFailed) {
    Ones ones;
    fake.fail = true;
    EXPECT_THAT([&] { run(ones.matmul); },
                ThrowsMessage<DeviceError>(AllOf(HasSubstr("matmul: cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"),
                                                 HasSubstr("for 6 x 4 x 5, f32 to f32"))));
}

}  // namespace cuda_gemm_test
}  // namespace headroom::kernels
