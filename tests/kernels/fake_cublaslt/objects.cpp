// Objects of the library that stands in for cuBLASLt: made, given attributes, destroyed.
#include <cstring>

#include <headroom/tests/kernels/fake_cublaslt/descriptors.hpp>
#include <headroom/tests/kernels/fake_cublaslt/fake_cublaslt.hpp>

namespace {

FakeBlas state;

cublasStatus_t wrong(const char* what) {
    state.problem = what;
    return CUBLAS_STATUS_INVALID_VALUE;
}

template <class Object, class Handle>
cublasStatus_t create(Handle* handle, const Object& object) {
    *handle = reinterpret_cast<Handle>(new Object(object));
    ++state.objects;
    return CUBLAS_STATUS_SUCCESS;
}

template <class Handle>
cublasStatus_t destroy(Handle handle) {
    delete &at(handle);
    --state.objects;
    return CUBLAS_STATUS_SUCCESS;
}

/// As cuBLASLt: the size must be exactly the attribute's.
template <class T>
cublasStatus_t set(T& target, const void* value, std::size_t bytes) {
    if (value == nullptr || bytes != sizeof(T)) return wrong("an attribute's size");
    std::memcpy(&target, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

FakeBlas* fake_blas_state() { return &state; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(&state);
    ++state.handles;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
    --state.handles;
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 4711; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    return create(handle, FakeProduct{.compute = compute, .scale = scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
    FakeProduct& product = at(handle);
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA:
            return set(product.transpose_a, value, bytes);
        case CUBLASLT_MATMUL_DESC_TRANSB:
            return set(product.transpose_b, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE:
            return set(product.epilogue, value, bytes);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
            return set(product.bias, value, bytes);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
            return set(product.bias_type, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
            return set(product.aux, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
            return set(product.aux_ld, value, bytes);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
            return set(product.aux_batch, value, bytes);
        default:
            return wrong("an attribute of a product that this library does not know");
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    return create(handle,
                  FakeLayout{.type = static_cast<std::uint32_t>(type), .rows = rows, .columns = columns, .ld = ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
    FakeLayout& layout = at(handle);
    switch (attribute) {
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
            return set(layout.batches, value, bytes);
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
            return set(layout.batch, value, bytes);
        default:
            return wrong("an attribute of a layout that this library does not know");
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
    return create(handle, FakePreference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
    FakePreference& preference = at(handle);
    switch (attribute) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
            return set(preference.workspace, value, bytes);
        case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
            return set(preference.reduction, value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
            return set(preference.a, value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
            return set(preference.b, value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
            return set(preference.c, value, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
            return set(preference.d, value, bytes);
        default:
            return wrong("an attribute of a preference that this library does not know");
    }
}

}  // extern "C"
