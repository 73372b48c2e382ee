#include <headroom/kernels/matmul/internal/cuda_blas_description.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::kernels {

namespace {

cudaDataType_t data_type(Dtype dtype) {
    switch (dtype) {
        case Dtype::f16:
            return CUDA_R_16F;
        case Dtype::bf16:
            return CUDA_R_16BF;
        case Dtype::f64:
            return CUDA_R_64F;
        default:
            return CUDA_R_32F;
    }
}

cublasComputeType_t compute_type(const Gemm& gemm, bool tf32) {
    if (gemm.operand == Dtype::f64) return CUBLAS_COMPUTE_64F;
    return tf32 && gemm.operand == Dtype::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue(const Gemm& gemm) {
    if (gemm.derivative) return CUBLASLT_EPILOGUE_DGELU;
    if (gemm.sums) return gemm.swapped ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    if (gemm.inner) return gemm.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    switch (gemm.activation) {
        case Activation::relu:
            return gemm.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
        case Activation::gelu_tanh:  // cuBLASLt's GELU is that by tanh
            return gemm.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
        default:
            return gemm.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

}  // namespace

void check_blas(const BlasApi& api, const char* call, cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const char* const name = api.cublasLtGetStatusName(status);
    const std::string line = fmt::format("matmul: {}: {}", call, name ? name : "unknown status");
    if (status != CUBLAS_STATUS_ALLOC_FAILED) throw DeviceError(line);
    throw memory::OutOfMemory(line + "; free memory, or set a lower memory limit", {});
}

BlasDescription::BlasDescription(const BlasApi& api, const Gemm& gemm, bool tf32)
    : api_(api),
      product_(nullptr, api.cublasLtMatmulDescDestroy),
      a_(layout(gemm.operand, gemm.a_rows(), gemm.a_columns(), gemm.lda, gemm.batches, gemm.a_batch)),
      b_(layout(gemm.operand, gemm.b_rows(), gemm.b_columns(), gemm.ldb, gemm.batches, gemm.b_batch)),
      d_(layout(gemm.result, gemm.rows, gemm.columns, gemm.ldd, gemm.batches, gemm.d_batch)) {
    cublasLtMatmulDesc_t product = nullptr;
    const cudaDataType_t scale = gemm.operand == Dtype::f64 ? CUDA_R_64F : CUDA_R_32F;
    check_blas(api, "cublasLtMatmulDescCreate",
               api.cublasLtMatmulDescCreate(&product, compute_type(gemm, tf32), scale));
    product_.reset(product);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
        check_blas(api, "cublasLtMatmulDescSetAttribute",
                   api.cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value));
    };
    const auto operation = [](bool transpose) -> std::int32_t { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(gemm.transpose_a));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(gemm.transpose_b));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(epilogue(gemm)));
    if (gemm.bias || gemm.sums)
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(gemm.result)));
    if (gemm.has_inner()) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, gemm.ldd);
    if (gemm.has_inner() && gemm.batches > 1) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, gemm.d_batch);
}

void BlasDescription::set_bias(const void* bias) const {
    check_blas(api_, "cublasLtMatmulDescSetAttribute",
               api_.cublasLtMatmulDescSetAttribute(product(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

void BlasDescription::set_inner(const void* inner) const {
    check_blas(api_, "cublasLtMatmulDescSetAttribute",
               api_.cublasLtMatmulDescSetAttribute(product(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &inner,
                                                   sizeof inner));
}

BlasDescription::Owned<cublasLtMatrixLayout_t> BlasDescription::layout(Dtype dtype, std::int64_t rows,
                                                                       std::int64_t columns, std::int64_t ld,
                                                                       std::int64_t batches, std::int64_t batch) const {
    cublasLtMatrixLayout_t created = nullptr;
    check_blas(api_, "cublasLtMatrixLayoutCreate",
               api_.cublasLtMatrixLayoutCreate(&created, data_type(dtype), static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), ld));
    Owned<cublasLtMatrixLayout_t> layout(created, api_.cublasLtMatrixLayoutDestroy);
    if (batches == 1) return layout;
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
        check_blas(api_, "cublasLtMatrixLayoutSetAttribute",
                   api_.cublasLtMatrixLayoutSetAttribute(created, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batches));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch);
    return layout;
}

BlasPreference::BlasPreference(const BlasApi& api, Dtype result, const GemmAlignment& alignment)
    : preference_(nullptr, api.cublasLtMatmulPreferenceDestroy) {
    cublasLtMatmulPreference_t created = nullptr;
    check_blas(api, "cublasLtMatmulPreferenceCreate", api.cublasLtMatmulPreferenceCreate(&created));
    preference_.reset(created);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
        check_blas(api, "cublasLtMatmulPreferenceSetAttribute",
                   api.cublasLtMatmulPreferenceSetAttribute(created, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kGemmWorkspace));
    // Parts of a result that is no half are of the compute type wherever they lie.
    const auto reductions = is_half(result) ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(reductions));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment.a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment.b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment.d);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment.d);
}

}  // namespace headroom::kernels
